"""A streaming query's reader: which offsets the next micro-batch ends at, and which tasks read it.

Spark keeps one of them in one process for the whole run of a query; `latestOffset` is asked at every trigger, with everything before its
`start` durably processed. Another one is made for the tasks, from which only `read` is used: what is pickled holds no connection. The
checkpoint is Spark's; this object remembers nothing that a restart would need.

Where a query begins is not in the checkpoint before its first micro-batch is: a Python source is given no place to keep it. A beginning
that would be another one after a restart (the end of a topic) is therefore made the end of a first, empty micro-batch: see `latestOffset`.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.spark.available_now import verify_end
from ottla.spark.batch_reader import into_tasks
from ottla.spark.columns import checked_columns
from ottla.spark.group_commit import GROUP_COMMIT, GroupCommitter
from ottla.spark.offset_reader import OffsetReader
from ottla.spark.options import SourceOptions
from ottla.spark.planning import added, among, plan_first_batch, plan_stream, recreation, report
from ottla.spark.ranges import ReadTask
from ottla.spark.rate_limits import BatchGate, share
from ottla.spark.stream_offsets import Offsets, from_json, in_checkpoint, recreated, to_json

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("ottla.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`reader` and `clock` (seconds) are for tests."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        tasks_max: int | None = None,
        reader: OffsetReader | None = None,
        committer: GroupCommitter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._schema = schema
        self._settings = options.read_settings(checked_columns(schema, options))
        self._tasks_max = tasks_max
        self._reader = reader or OffsetReader(options)
        group = options.group_id
        self._committer = committer if committer or group is None else GroupCommitter(options.client, group)
        self._clock = clock
        self._gate = BatchGate(options.trigger_offsets_min or 0, options.trigger_delay_ms_max)
        self._initial: Offsets | None = None
        self._initial_moves = False
        self._latest: Offsets | None = None
        self._frozen: Offsets | None = None
        self._is_available_now = False
        self._offered: Offsets | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _for_tasks, (self._options, self._schema, self._tasks_max)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; Spark asks twice. Raises OptionError or ClientError."""
        if self._initial is None:
            resolved, self._initial_moves = self._reader.resolve(self._options.starting, is_start=True)
            self._initial = in_checkpoint(resolved)
            log.info("Initial offsets: %s", self._initial)
            if self._committer is not None:
                self._committer.begin(self._initial.by_partition)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What limits there are. Spark's Python limits cannot be combined, and know no delay: `latestOffset` goes by the options."""
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_offsets_min is not None:
            return ReadMinRows(self._options.trigger_offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends: `start` when there is none. Raises ClientError, DataLossError or CheckpointError."""
        processed = from_json(start)
        self._commit(processed)
        if self._initial_moves and self._offered is None and processed == self._initial:
            # Spark writes this beginning down as the end of an empty batch. Were it the start of a batch with records, a query that is
            # interrupted in this batch would be told a later beginning, and never read the records in between.
            self._latest = self._offered = processed
            return start
        latest = self._ends(processed)
        self._latest = latest
        again = recreated(processed, latest.topic_ids)
        losses = [recreation(topic, processed.topic_ids[topic], latest.topic_ids[topic]) for topic in again]
        report(losses, fail_on_data_loss=self._options.fail_on_data_loss)
        ends = latest if isinstance(limit, ReadAllAvailable) else self._limited(processed, latest, limit)
        self._offered = in_checkpoint(ends)
        return start if ends is processed else to_json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the topics ended when `latestOffset` looked last, for the query's progress; and how the commits to the group go.

        Spark lets no Python source fill `sources[].metrics`: this is the one place of the progress where it can say anything.
        """
        if self._latest is None or not self._latest.by_partition:
            return None
        told = {} if self._committer is None else {GROUP_COMMIT: dict(self._committer.metrics())}
        return {**to_json(self._latest), **told}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch. Raises ClientError, DataLossError or CheckpointError."""
        begins, ends = from_json(start), from_json(end)
        if self._frozen is not None:
            verify_end(ends, self._frozen, self._reader.latest(ends))
        is_first_again = self._offered is None and begins == self._initial
        if is_first_again:
            # Planned before a restart; what is found as the beginning now may have partitions that were not there then.
            begins = among(begins, ends)
        if is_first_again and self._initial_moves:
            planned = plan_first_batch(begins, ends)
        else:
            planned = plan_stream(begins, ends, self._reader.earliest(added(begins, ends)))
        # What latestOffset has just found need not be asked again; what a checkpoint says must be.
        losses, gone = ([], set[str]()) if ends == self._offered else self._gone(ends)
        report([*losses, *planned.losses], fail_on_data_loss=self._options.fail_on_data_loss)
        return list(into_tasks([each for each in planned.ranges if each.topic not in gone], self._options, self._tasks_max))

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of a task. Raises as task_reading.read does."""
        if not isinstance(partition, ReadTask):
            return iter(())
        from ottla.spark import task_reading  # in the tasks only: it brings the fetch client along

        return task_reading.read(self._settings, partition, ahead=True)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark says this one batch late, and never for the last one: `latestOffset` commits."""

    def stop(self) -> None:
        """Close the connections."""
        self._reader.close()
        if self._committer is not None:
            self._committer.close()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on there is nothing behind the ends that are found first."""
        self._is_available_now = True

    def _commit(self, processed: Offsets) -> None:
        if self._committer is not None:
            is_last = self._frozen is not None and processed.by_partition == self._frozen.by_partition
            self._committer.offer(processed.by_partition, is_last=is_last)

    def _ends(self, processed: Offsets) -> Offsets:
        if not self._is_available_now:
            return self._reader.latest(processed)
        if self._frozen is None:
            self._frozen = self._reader.latest(processed)
        return self._frozen

    def _limited(self, processed: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        """As much of `latest` as one micro-batch may have; `processed` when there is too little for one."""
        fresh = set(added(processed, latest))
        begins = {partition: offset for partition, offset in processed.by_partition.items() if partition not in fresh}
        begins.update(self._reader.earliest(fresh))
        # With Trigger.AvailableNow nobody would come back for the little that is left.
        waits = self._options.trigger_offsets_min is not None and not self._is_available_now
        if waits and not self._gate.opens(begins, latest.by_partition, int(self._clock() * 1000)):
            return processed
        if not isinstance(limit, ReadMaxRows):
            return latest
        return Offsets(share(limit.max_rows, begins, latest.by_partition), latest.topic_ids)

    def _gone(self, ends: Offsets) -> tuple[list[str], set[str]]:
        """Topics of a planned micro-batch that are not there any more, and the sentences about them."""
        now = self._reader.topic_ids(ends.topic_ids)
        again = recreated(ends, now)
        deleted = sorted(set(ends.topic_ids) - set(now))
        losses = [recreation(topic, ends.topic_ids[topic], now[topic]) for topic in again]
        losses += [f"Topic {topic} has been deleted" for topic in deleted]
        return losses, {*again, *deleted}


def _for_tasks(options: SourceOptions, schema: StructType, tasks_max: int | None) -> StreamReader:
    return StreamReader(options, schema, tasks_max=tasks_max)
