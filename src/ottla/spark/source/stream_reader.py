"""The reader of a streaming query: the end offsets of the next micro-batch, its limits, and the tasks that read it.

Spark keeps one reader in one process for the whole run of a query, and calls `latestOffset` at every trigger, with everything before
`start` durably processed. It pickles another one for the tasks, which use only `read`: a pickled reader holds no connection. The
checkpoint is Spark's; the reader holds no state that a restart would need. The checkpoint does not have the initial offsets before the
first micro-batch is planned: a Python source cannot store them. Initial offsets that a restart would change (the end of a topic) therefore
become the end of a first, empty micro-batch: see `latestOffset`.

Limits are maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay. The arithmetic is that of Spark's own Kafka source
(KafkaMicroBatchStream), floating point included: the same limits make the same batches. Time is an argument. With Trigger.AvailableNow the
ends that a query fixed at its beginning must stay valid until it has read them: Spark's own Kafka source makes the same checks before
every micro-batch, whatever failOnDataLoss says.

With invalid options there is a reader of which every call raises the error: Spark 4.2 replaces an error of `streamReader` itself by an
UnboundLocalError, since its `finally` stops a reader that it does not have.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.protocol.model import TopicPartition
from ottla.spark.group.committer import GROUP_COMMIT, GroupCommitter
from ottla.spark.options.source_options import SourceOptions, listed
from ottla.spark.source.columns import checked_columns
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import (
    Offsets,
    ReadTask,
    added,
    among,
    from_json,
    in_checkpoint,
    into_tasks,
    plan_first_batch,
    plan_stream,
    recreated,
    recreation,
    report,
    to_json,
)

if TYPE_CHECKING:
    import pyarrow


_AGAIN: Final = "Restart the query."


class AvailableNowError(Exception):
    """The topics changed while a query with Trigger.AvailableNow was reading them."""


def verify_end(end: Offsets, goal: Offsets, latest: Offsets) -> None:
    """Check a micro-batch's `end` against the query's `goal` and the latest offsets. Raises AvailableNowError."""
    ends, goals, now = end.by_partition, goal.by_partition, latest.by_partition
    if set(ends) != set(goals):
        raise AvailableNowError(
            "Kafka data source in Trigger.AvailableNow has other topic partitions at the end of a micro-batch than it set out for."
            f" Set out for: {listed(goals)}. End: {listed(ends)}. {_AGAIN}"
        )
    further = {partition for partition, offset in ends.items() if offset > goals[partition]}
    if further:
        raise AvailableNowError(
            f"With Trigger.AvailableNow the end of a micro-batch lies behind what the query set out for: {listed(further)}. {_AGAIN}"
        )
    lost = set(ends) - set(now)
    if lost:
        raise AvailableNowError(
            f"Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow: {listed(lost)}. {_AGAIN}"
        )
    shorter = {partition for partition, offset in ends.items() if offset > now[partition]}
    if shorter:
        raise AvailableNowError(
            "Some of partitions in Kafka topic(s) report available offset which is less than end offset during running query with"
            f" Trigger.AvailableNow: {listed(shorter)}. {_AGAIN}"
        )


ByPartition = Mapping[TopicPartition, int]


def share(limit: int, starts: ByPartition, ends: ByPartition) -> dict[TopicPartition, int]:
    """Ends of a micro-batch with about `limit` offsets, in proportion to the backlog of each partition.

    A small backlog still gets one offset, so that the partition does not starve. A partition without a start, or whose end lies before its
    start, keeps its end.
    """
    sizes = {partition: end - starts[partition] for partition, end in ends.items() if end > starts.get(partition, end)}
    total = sum(sizes.values())
    return {
        partition: min(end, starts[partition] + _portion(limit * (sizes[partition] / total))) if partition in sizes else end
        for partition, end in ends.items()
    }


def _portion(exact: float) -> int:
    return math.ceil(exact) if exact < 1 else math.floor(exact)


class BatchThreshold:
    """Holds a batch back until there are `offsets_min` new offsets, or `delay_ms_max` have passed since the last one.

    The first batch of a query is never held back. Times are in ms of a monotonic clock.
    """

    def __init__(self, offsets_min: int, delay_ms_max: int) -> None:
        self._offsets_min = offsets_min
        self._delay_ms_max = delay_ms_max
        self._admitted_ms: int | None = None

    def admit(self, starts: ByPartition, ends: ByPartition, now_ms: int) -> bool:
        """Whether a batch starts now; the delay restarts with it. A partition without a start counts from 0."""
        is_late = self._admitted_ms is None or now_ms - self._admitted_ms >= self._delay_ms_max
        if is_late or sum(end - starts.get(partition, 0) for partition, end in ends.items()) >= self._offsets_min:
            self._admitted_ms = now_ms
            return True
        return False


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


log = logging.getLogger(__name__)


class StreamReader(StreamBase):
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
        super().__init__(options, schema, tasks_max=tasks_max, reader=reader, clock=clock)
        group = options.group_id
        self._committer = committer if committer or group is None else GroupCommitter(options.client, group)
        self._initial: Offsets | None = None
        self._is_initial_latest = False
        self._latest: Offsets | None = None
        self._available_now_end: Offsets | None = None
        self._batch_end: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        """The initial offsets of a new query; Spark calls this twice. Raises OptionError or ClientError."""
        if self._initial is None:
            resolved, self._is_initial_latest = self._reader.resolve(self._options.starting, is_start=True)
            self._initial = in_checkpoint(resolved)
            log.info("Initial offsets: %s", self._initial)
            if self._committer is not None:
                self._committer.begin(self._initial.by_partition)
        return to_json(self._initial)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` for no batch. Raises ClientError, DataLossError or CheckpointError."""
        processed = from_json(start)
        self._commit(processed)
        if self._is_initial_latest and self._batch_end is None and processed == self._initial:
            # Spark stores the initial offsets as the end of an empty batch. Were they the start of a batch with records, a query that is
            # interrupted in this batch would get later initial offsets, and never read the records in between.
            self._latest = self._batch_end = processed
            return start
        latest = self._ends(processed)
        self._latest = latest
        again = recreated(processed, latest.topic_ids)
        losses = [recreation(topic, processed.topic_ids[topic], latest.topic_ids[topic]) for topic in again]
        report(losses, fail_on_data_loss=self._options.fail_on_data_loss)
        ends = self._limited(processed, latest, limit)
        self._batch_end = in_checkpoint(ends)
        return start if ends is processed else to_json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The latest offsets that `latestOffset` found, for the query's progress, with the metrics of commits to the group.

        Python sources cannot fill `sources[].metrics`: this is the only place in the progress for them.
        """
        if self._latest is None or not self._latest.by_partition:
            return None
        metrics = {} if self._committer is None else {GROUP_COMMIT: dict(self._committer.metrics())}
        return {**to_json(self._latest), **metrics}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch. Raises ClientError, DataLossError or CheckpointError."""
        begins, ends = from_json(start), from_json(end)
        if self._available_now_end is not None:
            verify_end(ends, self._available_now_end, self._reader.latest(ends))
        is_first_again = self._batch_end is None and begins == self._initial
        if is_first_again:
            # Planned before a restart: the initial offsets now may have partitions that did not exist then.
            begins = among(begins, ends)
        if is_first_again and self._is_initial_latest:
            planned = plan_first_batch(begins, ends)
        else:
            planned = plan_stream(begins, ends, self._reader.earliest(added(begins, ends)))
        # Ends from latestOffset are current; ends from a checkpoint have to be checked.
        losses, gone = ([], set[str]()) if ends == self._batch_end else self._gone(ends)
        report([*losses, *planned.losses], fail_on_data_loss=self._options.fail_on_data_loss)
        return list(into_tasks([each for each in planned.ranges if each.topic not in gone], self._options, self._tasks_max))

    def stop(self) -> None:
        """Close the connections."""
        super().stop()
        if self._committer is not None:
            self._committer.close()

    def _commit(self, processed: Offsets) -> None:
        if self._committer is not None:
            is_last = self._available_now_end is not None and processed.by_partition == self._available_now_end.by_partition
            self._committer.offer(processed.by_partition, is_last=is_last)

    def _ends(self, processed: Offsets) -> Offsets:
        if not self._is_available_now:
            return self._reader.latest(processed)
        if self._available_now_end is None:
            self._available_now_end = self._reader.latest(processed)
        return self._available_now_end

    def _limited(self, processed: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        """The end of a micro-batch by the limits; `processed` when there are too few offsets for one."""
        if isinstance(limit, ReadAllAvailable):
            return latest
        fresh = set(added(processed, latest))
        begins = {partition: offset for partition, offset in processed.by_partition.items() if partition not in fresh}
        begins.update(self._reader.earliest(fresh))
        ends = self._limit(begins, latest, limit)
        return processed if ends is None else Offsets(ends, latest.topic_ids)


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises `error` at the first question of Spark's."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        self._raise()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        self._raise()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raises the error."""
        self._raise()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raises the error."""
        self._raise()

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error."""
        self._raise()

    def read(self, partition: InputPartition) -> Any:
        """Raises the error."""
        self._raise()

    def stop(self) -> None:
        """Nothing: there is no connection."""

    def _raise(self) -> NoReturn:
        raise self._error
