"""The reader of a streaming query that is a member of its group: the planner of `stream_reader`, for the partitions that the query owns.

Spark calls `latestOffset(start)` when everything before `start` is durably processed: then the query commits, gives up what the group
takes away, takes what it gets, and plans the next batch. The checkpoint has where each batch begins and ends, so that an interrupted one
is read again exactly as it was, whichever member owns its partitions by then.

Offsets of a batch are JSON: those of `planning` (where the batch ends in each owned partition), and under "#member" where it begins in
those that have records: a batch that is read again after a restart needs no group for that. "committed" has what the group had committed,
where that differs from the beginning, and "generation" and "member_id" who planned the batch.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ottla.protocol.model import TopicPartition
from ottla.spark.group.member import GROUP_MEMBER, Departure, GroupMember, Owned, Processed
from ottla.spark.group.starting_offsets import starting_offsets
from ottla.spark.options.source_options import START_AT_LATEST, MemberOptions, SourceOptions, named
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import (
    MEMBER,
    CheckpointError,
    Offsets,
    from_json,
    into_tasks,
    plan_stream,
    recreated,
    recreation,
    report,
    to_json,
)
from ottla.spark.source.stream_reader import AvailableNowError, StreamBase

_STARTS: Final = "starts"
_COMMITTED: Final = "committed"


class Batch(NamedTuple):
    """A batch: its ends, and its starts in the partitions that have records. `committed`: see `Processed`; None without a member's part."""

    ends: Offsets
    starts: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int] | None

    def processed(self) -> dict[TopicPartition, Processed]:
        """The batch as what a query has processed. Of a batch that commit mode planned, the group's offset may be any one before it."""
        if self.committed is None:
            return {partition: Processed(0, end) for partition, end in self.ends.by_partition.items()}
        return {
            partition: Processed(self.committed.get(partition, self.starts.get(partition, end)), end)
            for partition, end in self.ends.by_partition.items()
        }


def batch_to_json(batch: Batch, *, generation: int, member_id: str) -> dict[str, Any]:
    """The end of a micro-batch, for Spark's checkpoint."""
    committed = {
        partition: offset
        for partition, offset in (batch.committed or {}).items()
        if offset != batch.starts.get(partition, batch.ends.by_partition[partition])
    }
    member: dict[str, Any] = {_STARTS: _plain(batch.starts), "generation": generation, "member_id": member_id}
    if committed:
        member[_COMMITTED] = _plain(committed)
    return {**to_json(batch.ends), MEMBER: member}


def batch_from_json(value: Mapping[str, Any]) -> Batch:
    """A batch from its end in the checkpoint, also of commit mode or of Spark's own source. Raises CheckpointError."""
    ends = from_json({name: offsets for name, offsets in value.items() if name != MEMBER})
    member = value.get(MEMBER)
    if member is None:
        return Batch(ends, {}, None)
    if not isinstance(member, Mapping):
        raise CheckpointError(f"{MEMBER} in the checkpoint is no JSON object: {member!r}")
    return Batch(ends, from_json(member.get(_STARTS, {})).by_partition, from_json(member.get(_COMMITTED, {})).by_partition)


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value


SETTLE_S_MAX: Final = 5.0
"""How long a trigger waits for a rebalance; the next one waits again."""
FIRST_PARTITION_S_MAX: Final[Mapping[str, float]] = {"classic": SETTLE_S_MAX, "consumer": 3 * SETTLE_S_MAX}
"""How long Trigger.AvailableNow waits for a first partition, by group protocol. With the consumer protocol others learn by a heartbeat that
they must give some up, and the query by another one that it has them: Kafka's default is one in 5 s."""


class MemberStreamReader(StreamBase):
    """`reader`, `join` and `clock` (seconds) are for tests."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        tasks_max: int | None = None,
        reader: OffsetReader | None = None,
        join: Callable[[MemberOptions], GroupMember] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(options, schema, tasks_max=tasks_max, reader=reader, clock=clock)
        assert options.member is not None
        self._member_options = options.member
        self._join = join or _join
        self._member: GroupMember | None = None
        self._is_restored = False
        self._goal: Offsets | None = None
        self._latest: Offsets | None = None
        self._batch_end: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """No partition: a new query owns none. It joins its group now. Raises ValueError or KafkaException for wrong properties."""
        self._joined()
        return batch_to_json(Batch(Offsets({}, {}), {}, {}), generation=-1, member_id="")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` for no batch.

        Raises ClientError, DataLossError, CheckpointError, GroupMemberError, or AvailableNowError.
        """
        before = batch_from_json(start)
        member = self._joined()
        if not self._is_restored:
            member.progress.restore(before.processed())
            self._is_restored = True
        # Spark runs every batch that it has planned, or ends the query; nothing is committed on trust.
        member.batch_done(is_processed=self._batch_end is None or start == self._batch_end)
        self._batch_end = None
        owned = self._begin_batch(member)
        if owned is None:
            return start
        batch = None
        try:
            batch = self._plan(member, owned, before.ends.topic_ids, limit)
        finally:
            if batch is None:
                member.no_batch()
        if batch is None:
            return start
        member.progress.planned(batch.processed(), owned)
        generation, member_id = member.identity()
        self._batch_end = batch_to_json(batch, generation=generation, member_id=member_id)
        return self._batch_end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch. Raises ClientError, DataLossError or CheckpointError."""
        self._joined()
        before, batch = batch_from_json(start), batch_from_json(end)
        # Commit mode planned the batch of an interrupted query that is a member now.
        starts = before.ends.by_partition if batch.committed is None else batch.starts
        begins = Offsets({each: starts[each] for each in starts if each in batch.ends.by_partition}, batch.ends.topic_ids)
        ends = Offsets({each: batch.ends.by_partition[each] for each in begins.by_partition}, batch.ends.topic_ids)
        planned = plan_stream(begins, ends, {})
        # Ends from latestOffset are current; ends from a checkpoint have to be checked.
        losses, gone = ([], set[str]()) if end == self._batch_end else self._gone(ends)
        report([*losses, *planned.losses], fail_on_data_loss=self._options.fail_on_data_loss)
        return list(into_tasks([each for each in planned.ranges if each.topic not in gone], self._options, self._tasks_max))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The latest offsets of the owned partitions, for the query's progress, with what the membership is and has cost."""
        if self._member is None:
            return None
        latest = {} if self._latest is None else to_json(self._latest)
        return {**latest, GROUP_MEMBER: self._member.metrics()}

    def stop(self) -> None:
        """Leave the group, and close the connections."""
        super().stop()
        if self._member is not None:
            self._member.close()
            self._member = None

    def _joined(self) -> GroupMember:
        if self._member is None:
            self._member = self._join(self._member_options)
        return self._member

    def _begin_batch(self, member: GroupMember) -> dict[TopicPartition, Owned] | None:
        """What the query owns; None if that is not decided. With Trigger.AvailableNow, where None would end the query, an error."""
        if not self._is_available_now:
            return member.begin_batch(SETTLE_S_MAX)
        timeout_ms = self._options.client.default_api_timeout_ms
        protocol = self._member_options.properties.get("group.protocol", "classic")
        owned = member.begin_batch(timeout_ms / 1000, patience_s=FIRST_PARTITION_S_MAX[protocol])
        if owned is None:
            raise AvailableNowError(
                f"The query did not get its partitions from the group {self._options.group_id} within {timeout_ms / 1000:.0f} s"
                " (kafka.default.api.timeout.ms): the rebalance waits for other members. Start the query again."
            )
        return owned

    def _plan(
        self, member: GroupMember, owned: Mapping[TopicPartition, Owned], topic_ids: Mapping[str, str], limit: ReadLimit
    ) -> Batch | None:
        """The next batch of what the query owns; None when there are no records."""
        if not owned:
            return None
        known = Offsets({each: at.position for each, at in owned.items() if at.position is not None}, topic_ids)
        latest = self._reader.latest(known, among=owned.keys())
        self._latest = latest
        losses = self._follow_recreated(owned, known, latest)
        losses += self._resume(member, owned, latest)
        positions = {each: at.position for each, at in sorted(owned.items()) if at.position is not None}
        losses += plan_stream(Offsets(positions, latest.topic_ids), latest, {}).losses
        report(losses, fail_on_data_loss=self._options.fail_on_data_loss)
        begins = {each: begin for each, begin in positions.items() if each in latest.by_partition}
        ends = self._limit(begins, Offsets(self._ends(begins, latest), latest.topic_ids), limit)
        starts = {each: begin for each, begin in begins.items() if ends is not None and ends[each] > begin}
        if ends is None or not starts:
            return None
        committed = {each: begin if (known_offset := owned[each].committed) is None else known_offset for each, begin in begins.items()}
        return Batch(Offsets(ends, latest.topic_ids), starts, committed)

    def _ends(self, begins: Mapping[TopicPartition, int], latest: Offsets) -> dict[TopicPartition, int]:
        """The latest offsets, or those at the start of a query with Trigger.AvailableNow; never before the begins."""
        goal = latest
        if self._is_available_now:
            self._goal = goal = self._goal or self._reader.latest()
        return {each: max(begin, goal.by_partition.get(each, begin)) for each, begin in begins.items()}

    def _resume(self, member: GroupMember, owned: Mapping[TopicPartition, Owned], latest: Offsets) -> list[str]:
        """Set where the partitions continue that the query has got: a message for each whose log does not hold that."""
        gained = sorted(each for each, at in owned.items() if at.position is None and each in latest.by_partition)
        if not gained:
            return []
        committed, earliest = member.committed(gained), self._reader.earliest(gained)
        starting_offsets(member.group, committed, gained, self._member_options.reset)  # raises where a start is missing
        losses = []
        for partition in gained:
            at, low, high = owned[partition], earliest.get(partition, 0), latest.by_partition[partition]
            otherwise = high if self._member_options.reset == START_AT_LATEST else low
            member.progress.resume(partition, at, committed.get(partition), otherwise)
            if at.position is not None and not low <= at.position <= high:
                losses.append(f"The group's offset {at.position} of {named(partition)} is not in its log, which holds {low} to {high}")
                at.position = low if at.position < low else otherwise
        return losses

    def _follow_recreated(self, owned: Mapping[TopicPartition, Owned], known: Offsets, latest: Offsets) -> list[str]:
        """Read topics from their beginning that were deleted and made again: a message for each."""
        again = recreated(known, latest.topic_ids)
        for partition, offset in self._reader.earliest(each for each in known.by_partition if each.topic in again).items():
            owned[partition].position = offset
        return [recreation(topic, known.topic_ids[topic], latest.topic_ids[topic]) for topic in again]


def _join(options: MemberOptions) -> GroupMember:
    # A static member stays in its group when it ends, as in Kafka.
    departure = None if "group.instance.id" in options.properties else Departure(options.properties)
    return GroupMember(options.properties, options.topics, departure=departure)
