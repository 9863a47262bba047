"""What the readers of streaming queries share: tasks that read, the limits of a micro-batch, and checks of a batch from a checkpoint.

Spark keeps one reader in one process for the whole run of a query. It pickles another one for the tasks, which use only `read`: a pickled
reader holds no connection.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import SourceOptions
from ottla.spark.source.columns import checked_columns
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import recreation
from ottla.spark.source.rate_limits import BatchThreshold, share
from ottla.spark.source.stream_offsets import Offsets, recreated
from ottla.spark.source.tasks import ReadTask

if TYPE_CHECKING:
    import pyarrow


class StreamBase(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`reader` and `clock` (seconds) are for tests."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        tasks_max: int | None = None,
        reader: OffsetReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._schema = schema
        self._settings = options.read_settings(checked_columns(schema, options))
        self._tasks_max = tasks_max
        self._reader = reader or OffsetReader(options)
        self._clock = clock
        self._threshold = BatchThreshold(options.trigger_offsets_min or 0, options.trigger_delay_ms_max)
        self._is_available_now = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _for_tasks, (type(self), self._options, self._schema, self._tasks_max)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The read limit. Spark's Python limits cannot be combined and have no delay: `latestOffset` applies the options itself."""
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_offsets_min is not None:
            return ReadMinRows(self._options.trigger_offsets_min)
        return ReadAllAvailable()

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of a task. Raises as task_reading.read does."""
        if not isinstance(partition, ReadTask):
            return iter(())
        from ottla.spark.source import task_reading

        return task_reading.read(self._settings, partition, prefetch=True)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark calls this one batch late, and never for the last one. `latestOffset` commits."""

    def stop(self) -> None:
        """Close the connections."""
        self._reader.close()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the next latest offsets only."""
        self._is_available_now = True

    def _limit(self, begins: Mapping[TopicPartition, int], latest: Offsets, limit: ReadLimit) -> Mapping[TopicPartition, int] | None:
        """The ends of a micro-batch by the limits; None when there are too few offsets for one."""
        if isinstance(limit, ReadAllAvailable):
            return latest.by_partition
        # With Trigger.AvailableNow no later trigger would read a small rest.
        waits = self._options.trigger_offsets_min is not None and not self._is_available_now
        if waits and not self._threshold.admit(begins, latest.by_partition, int(self._clock() * 1000)):
            return None
        return share(limit.max_rows, begins, latest.by_partition) if isinstance(limit, ReadMaxRows) else latest.by_partition

    def _gone(self, ends: Offsets) -> tuple[list[str], set[str]]:
        """Messages about topics of a planned micro-batch that do not exist any more, and the topics."""
        now = self._reader.topic_ids(ends.topic_ids)
        again = recreated(ends, now)
        deleted = sorted(set(ends.topic_ids) - set(now))
        losses = [recreation(topic, ends.topic_ids[topic], now[topic]) for topic in again]
        losses += [f"Topic {topic} has been deleted" for topic in deleted]
        return losses, {*again, *deleted}


def _for_tasks(reader: type[StreamBase], options: SourceOptions, schema: StructType, tasks_max: int | None) -> StreamBase:
    return reader(options, schema, tasks_max=tasks_max)
