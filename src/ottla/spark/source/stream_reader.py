"""The reader of a streaming query: the end offsets of the next micro-batch, and the tasks that read it.

Spark calls `latestOffset` at every trigger, with everything before `start` durably processed. The checkpoint is Spark's; the reader holds
no state that a restart would need.

The checkpoint does not have the initial offsets before the first micro-batch is planned: a Python source cannot store them. Initial offsets
that a restart would change (the end of a topic) therefore become the end of a first, empty micro-batch: see `latestOffset`.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from ottla.spark.group.committer import GROUP_COMMIT, GroupCommitter
from ottla.spark.options.source_options import SourceOptions
from ottla.spark.source.available_now import verify_end
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import added, among, plan_first_batch, plan_stream, recreation, report
from ottla.spark.source.stream_base import StreamBase
from ottla.spark.source.stream_offsets import Offsets, from_json, in_checkpoint, recreated, to_json
from ottla.spark.source.tasks import into_tasks

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
