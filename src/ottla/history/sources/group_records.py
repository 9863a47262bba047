"""Records of the offsets topic to evidence: every change of a group that the coordinator stored, and the commits in between.

The records of one partition are read in the order of their offsets; each group lives in one partition. Bytes are decoded by the caller's
`decode`, so this reads the values of a Spark table as well. Nothing raises: what cannot be read is counted. Commits are summarised: the
memory is that of one span for each partition that a group commits to, however many commits there are.

A classic group (GroupMetadata, type 2) has a record for each generation that synced, became empty, or had a static member replaced, and a
tombstone when it is deleted or converted; each is compared with the one before. Not in the topic: what triggered a rebalance, and rounds
that never synced. Causes are not decided here. KIP-848 groups: consumer_records.py.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.groups.events import EventMember
from ottla.history.sources.consumer_records import CONSUMER, ConsumerReplay
from ottla.history.sources.evidence import CommitSpan, Evidence, Kind, Source, about_member
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import OffsetCommit, Record, TopicPartition
from ottla.protocol.record_codec import DecodedRecord, UnknownRecord
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_assignment, parse_subscription

RECORD_TYPE_NAMES = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
    **dict.fromkeys(range(9, 16), "ShareGroup"),
    **dict.fromkeys((17, *range(19, 24)), "StreamsGroup"),
}
"""By the number that a record's key begins with; all types of share groups, and of streams groups, count together."""
UNKNOWN = "unknown"


@dataclass(slots=True)
class ReadCounts:
    """`record_types`: records by name. `unreadable_records`: bytes that are no record of the topic, or a value of a later version.

    `damaged_batches`: a wrong checksum, or records that cannot be read. `torn_bytes`: at the end of files, as of a batch that was being
    written. `aborted_records` are of aborted transactions, `pending_records` of those that have no end in what was read; neither counts.
    """

    records: int = 0
    record_types: Counter[str] = field(default_factory=Counter)
    unreadable_records: int = 0
    damaged_batches: int = 0
    torn_bytes: int = 0
    aborted_records: int = 0
    pending_records: int = 0

    def count_type(self, record_type: int) -> None:
        """Count a record by the number of its type."""
        self.record_types[RECORD_TYPE_NAMES.get(record_type, UNKNOWN)] += 1

    def to_dict(self) -> dict[str, int | dict[str, int]]:
        """The figures, for JSON."""
        return {
            "records": self.records,
            "record_types": dict(sorted(self.record_types.items())),
            "unreadable_records": self.unreadable_records,
            "damaged_batches": self.damaged_batches,
            "torn_bytes": self.torn_bytes,
            "aborted_records": self.aborted_records,
            "pending_records": self.pending_records,
        }


Commits = dict[TopicPartition, CommitSpan]
_Numbers = list[int]


class CommitSpans:
    """The commits of many groups since each group's `take`."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], _Numbers]] = {}

    def add(self, group: str, topic: str, partition: int, at_ms: int, offset: int) -> None:
        """Count one commit."""
        of_group = self._groups.get(group)
        if of_group is None:
            of_group = self._groups[group] = {}
        span = of_group.get((topic, partition))
        if span is None:
            of_group[topic, partition] = [at_ms, at_ms, offset, offset, 1]
            return
        span[1] = at_ms
        span[3] = offset
        span[4] += 1

    def take(self, group: str) -> Commits:
        """The spans of a group, which begin again; empty when there were no commits."""
        taken = self._groups.pop(group, {})
        return {TopicPartition(*partition): CommitSpan(*numbers) for partition, numbers in taken.items()}

    def groups(self) -> list[str]:
        """Every group with commits that were not taken yet."""
        return list(self._groups)


CLASSIC: Final = "classic"
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class _Subscription:
    """What a member joined with: the topics it subscribes to, and the number of partitions that it still owned."""

    topics: frozenset[str]
    owned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A group at one record."""

    generation: int
    protocol: str | None
    members: tuple[EventMember, ...]
    subscriptions: Mapping[str, _Subscription]


def read_classic_group(value: GroupMetadataValue) -> ClassicGroup:
    """A group from its record's value; members of other protocols than the consumer's have no assignment."""
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    return ClassicGroup(
        generation=value.generation,
        protocol=value.protocol,
        members=tuple([_member(member, is_consumer) for member in value.members]),
        subscriptions={member.instance_id or member.member_id: _subscription(member, is_consumer) for member in value.members},
    )


def _member(member: MemberValue, is_consumer: bool) -> EventMember:
    assignment: dict[str, tuple[int, ...]] = {}
    if is_consumer:
        with suppress(PeerError):
            assignment = parse_assignment(member.assignment)
    return EventMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignment=assignment,
    )


def _subscription(member: MemberValue, is_consumer: bool) -> _Subscription:
    if is_consumer:
        with suppress(PeerError):
            subscription = parse_subscription(member.subscription)
            return _Subscription(frozenset(subscription.topics), sum(map(len, subscription.owned.values())))
    return _Subscription(frozenset(), 0)


def evidence_of_record(value: GroupMetadataValue, now: ClassicGroup, before: ClassicGroup | None, head: Evidence) -> Iterator[Evidence]:
    """What one record shows beside the one before it. `head` has the time, the source and the group."""
    if not now.members:
        if before is not None or now.generation > 0:  # an empty generation 0 is only the group's creation
            yield replace(head, kind=Kind.EMPTIED, generation=now.generation, members=(), evidence=_steps(now, before))
        return
    head = replace(
        head,
        generation=now.generation,
        protocol=now.protocol,
        leader=value.leader,
        members=now.members,
        topics=frozenset().union(*(each.topics for each in now.subscriptions.values())),
    )
    if before is None or before.generation != now.generation:
        yield replace(
            head, kind=Kind.SYNC_COMPLETED, evidence=_sync_figures(value, head.at_ms) | _steps(now, before) | _rejoins(now, before)
        )
        return
    replaced = _replaced(now, before)
    for member, old in replaced:
        yield about_member(replace(head, kind=Kind.STATIC_REPLACED, reason=f"replaces {old.member_id}"), member)
    if not replaced and now.members != before.members:
        yield replace(head, kind=Kind.SYNC_COMPLETED, evidence=_sync_figures(value, head.at_ms))


def _replaced(now: ClassicGroup, before: ClassicGroup) -> list[tuple[EventMember, EventMember]]:
    """Static members that have another member id than before, each with its former self."""
    statics = {member.instance_id: member for member in before.members if member.instance_id is not None}
    pairs = ((member, statics[member.instance_id]) for member in now.members if member.instance_id in statics)
    return [(member, old) for member, old in pairs if member.member_id != old.member_id]


def _sync_figures(value: GroupMetadataValue, at_ms: int) -> dict[str, int]:
    """The end of the join, from which to the record's own time members waited for the assignment."""
    joined_ms = value.current_state_timestamp_ms
    return {} if joined_ms == _NO_TIME else {"join_completed_ms": joined_ms, "sync_ms": max(0, at_ms - joined_ms)}


def _steps(now: ClassicGroup, before: ClassicGroup | None) -> dict[str, int]:
    """Generations in between that were formed and never synced."""
    if before is None or now.generation <= before.generation:
        return {}
    return {"generations_skipped": now.generation - before.generation - 1}


def _rejoins(now: ClassicGroup, before: ClassicGroup | None) -> dict[str, int]:
    """Of the members that stayed: how many subscribe to other topics, and how many came with fewer partitions than they had been given.

    The latter only where members keep partitions through a rebalance (cooperative): all others come with none.
    """
    if before is None:
        return {}
    given = {member.instance_id or member.member_id: sum(map(len, member.assignment.values())) for member in before.members}
    stayed = [(name, now.subscriptions[name], before.subscriptions[name]) for name in now.subscriptions if name in before.subscriptions]
    figures = {"members_resubscribed": sum(new.topics != old.topics for _, new, old in stayed)}
    if any(new.owned for _, new, _ in stayed):
        figures["members_revoked"] = sum(new.owned < given[name] for name, new, _ in stayed)
    return figures


Decode = Callable[[bytes | None, bytes | None], OffsetCommit | DecodedRecord | UnknownRecord]
"""Key and value of a record to its values; PeerError for bytes that are none."""
CONVERTED_WITHIN_MS: Final = 1_000
"""A group that is deleted and there again as one of the other type within this time was converted."""
_OFFSET_COMMIT, _GROUP_METADATA, _CONSUMER_GROUP_METADATA = 1, 2, 3


def clock_of(partition: int) -> str:
    """The name of the clock of one partition's records: that of its coordinator."""
    return f"__consumer_offsets-{partition}"


class GroupRecords:
    """The groups of one partition. Give it records with `read`, and take what is left with `finish`.

    `groups`: only these, None for all. `topic_names`: topic ids to names, which commits add to.
    """

    def __init__(
        self,
        partition: int,
        *,
        decode: Decode,
        counts: ReadCounts,
        groups: Container[str] | None = None,
        topic_names: MutableMapping[str, str] | None = None,
    ) -> None:
        self._clock = clock_of(partition)
        self._decode = decode
        self._counts = counts
        self._wanted = groups
        self._topic_names = {} if topic_names is None else topic_names
        self._commits = CommitSpans()
        self._classic: dict[str, ClassicGroup] = {}
        self._consumer: dict[str, ConsumerReplay] = {}
        self._deleted: dict[str, tuple[Evidence, frozenset[str]]] = {}
        self._leader_epoch: int | None = None
        self._loaded_ms = 0
        self._epochs: dict[str, int | None] = {}

    def start_epoch(self, leader_epoch: int, at_ms: int) -> None:
        """The records that follow were written in this leader epoch, the first of them at `at_ms`: after another epoch the groups were
        loaded again, by another broker or by the same one after a restart."""
        if leader_epoch != self._leader_epoch:
            self._leader_epoch, self._loaded_ms = leader_epoch, at_ms

    def read(self, records: Iterable[Record]) -> Iterator[Evidence]:
        """The evidence of these records, which follow those of the call before."""
        counts, wanted = self._counts, self._wanted
        for _, timestamp_ms, key, value, _ in records:
            counts.records += 1
            try:
                found = self._decode(key, value)
            except PeerError:
                counts.unreadable_records += 1
                continue
            if isinstance(found, OffsetCommit):
                counts.count_type(_OFFSET_COMMIT)
                if wanted is None or found.group in wanted:
                    self._commit(found, timestamp_ms)
            elif isinstance(found, UnknownRecord):
                counts.count_type(found.record_type)
                counts.unreadable_records += found.value_version is not None
            else:
                counts.count_type(found.record_type)
                group = found.key.group_id
                if wanted is None or group in wanted:
                    yield from self._group_record(found, group, timestamp_ms)

    def finish(self) -> Iterator[Evidence]:
        """What no later record has brought out: commits since each group's last record, and deletions."""
        for group in list(self._deleted):
            yield self._deleted.pop(group)[0]
        for group in self._commits.groups():
            yield from self._take_commits(group)

    def _commit(self, commit: OffsetCommit, at_ms: int) -> None:
        if commit.offset is None:
            return
        if commit.topic_id:
            self._topic_names[commit.topic_id] = commit.topic
        self._commits.add(commit.group, commit.topic, commit.partition, at_ms, commit.offset)

    def _take_commits(self, group: str) -> Iterator[Evidence]:
        spans = self._commits.take(group)
        if spans:
            at_ms = max(span.last_ms for span in spans.values())
            yield replace(self._head(group, at_ms), kind=Kind.COMMITS, commits=spans)

    def _head(self, group: str, at_ms: int, group_type: str | None = None) -> Evidence:
        return Evidence(at_ms=at_ms, source=Source.OFFSETS_TOPIC, clock=self._clock, kind=Kind.DELETED, group=group, group_type=group_type)

    def _group_record(self, found: DecodedRecord, group: str, at_ms: int) -> Iterator[Evidence]:
        yield from self._take_commits(group)
        if self._epochs.setdefault(group, self._leader_epoch) != self._leader_epoch:
            self._epochs[group] = self._leader_epoch
            yield from self._loaded(group, at_ms)
        if found.record_type == _GROUP_METADATA:
            yield from self._classic_record(found.value, group, at_ms)
        elif found.record_type == _CONSUMER_GROUP_METADATA and found.value is None:
            yield from self._delete(group, at_ms)
        elif found.value is not None or group in self._consumer:
            yield from self._consumer_record(found, group, at_ms)

    def _loaded(self, group: str, at_ms: int) -> Iterator[Evidence]:
        """A load since the group's last record: no later than the first record of the leader epoch."""
        if group in self._classic or group in self._consumer:
            group_type = CLASSIC if group in self._classic else CONSUMER
            figures = {} if self._leader_epoch is None else {"leader_epoch": self._leader_epoch}
            yield replace(self._head(group, min(at_ms, self._loaded_ms), group_type), kind=Kind.LOADED, evidence=figures)

    def _classic_record(self, value: GroupMetadataValue | None, group: str, at_ms: int) -> Iterator[Evidence]:
        if value is None:
            yield from self._delete(group, at_ms)
            return
        head = self._head(group, at_ms, CLASSIC)
        now, before = read_classic_group(value), self._classic.get(group)
        deleted, is_converted = self._end_deletion(group, at_ms, CLASSIC)
        yield from deleted
        if is_converted:
            yield replace(head, kind=Kind.CONVERTED, generation=now.generation, members=now.members, protocol=now.protocol)
        else:
            yield from evidence_of_record(value, now, before, head)
        self._classic[group] = now
        self._consumer.pop(group, None)

    def _consumer_record(self, found: DecodedRecord, group: str, at_ms: int) -> Iterator[Evidence]:
        head = self._head(group, at_ms, CONSUMER)
        replay = self._consumer.get(group)
        if replay is None:
            members = self._deleted[group][1] if group in self._deleted else frozenset()
            deleted, is_converted = self._end_deletion(group, at_ms, CONSUMER)
            yield from deleted
            if is_converted:
                yield replace(head, kind=Kind.CONVERTED, member_count=len(members))
            replay = self._consumer[group] = ConsumerReplay(self._topic_names, members if is_converted else ())
            self._classic.pop(group, None)
        yield from replay.apply(found, head)

    def _delete(self, group: str, at_ms: int) -> Iterator[Evidence]:
        """A group's tombstone: held back until it is clear that the group was not converted."""
        classic, replay = self._classic.pop(group, None), self._consumer.pop(group, None)
        if classic is None and replay is None:
            return iter(())  # the tombstone of something that compaction has removed, or of a group that only committed
        left = [] if replay is None else [*replay.group.left, *replay.group.members.values()]
        members = frozenset(member.member_id for member in (classic.members if classic is not None else left))
        self._deleted[group] = (self._head(group, at_ms, CONSUMER if classic is None else CLASSIC), members)
        return iter(())

    def _end_deletion(self, group: str, at_ms: int, group_type: str) -> tuple[list[Evidence], bool]:
        """The deletion that was held back, and whether it was a conversion instead."""
        if group not in self._deleted:
            return [], False
        deletion, members = self._deleted.pop(group)
        is_converted = bool(members) and deletion.group_type != group_type and at_ms - deletion.at_ms <= CONVERTED_WITHIN_MS
        return ([] if is_converted else [deletion]), is_converted
