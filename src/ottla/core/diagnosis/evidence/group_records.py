"""Records of the offsets topic to evidence: every change of a group that the coordinator stored, and the commits in between.

The records of one partition are read in the order of their offsets; each group lives in one partition. Bytes are decoded by the caller's
`decode`, so this reads the values of a Spark table as well. Nothing raises: what cannot be read is counted.
Not in the topic: what triggered a rebalance, and rounds that never synced.
"""

from collections.abc import Callable, Container, Iterable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any, Final

from ottla.core.diagnosis.evidence.classic_records import CLASSIC, ClassicGroup, evidence_of_record, read_classic_group
from ottla.core.diagnosis.evidence.commit_spans import CommitSpans
from ottla.core.diagnosis.evidence.consumer_records import CONSUMER, ConsumerReplay
from ottla.core.diagnosis.evidence.model import Evidence, Kind, Source
from ottla.core.diagnosis.evidence.read_counts import ReadCounts
from ottla.core.errors import PeerError
from ottla.core.model import OffsetCommit, Record
from ottla.core.records.schema import DecodedRecord, UnknownRecord

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
                group = str(found.key["group" if found.record_type == _GROUP_METADATA else "groupId"])
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

    def _classic_record(self, value: Any, group: str, at_ms: int) -> Iterator[Evidence]:
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
        members = frozenset(each.member_id for each in (classic.members if classic is not None else left))
        self._deleted[group] = (self._head(group, at_ms, CONSUMER if classic is None else CLASSIC), members)
        return iter(())

    def _end_deletion(self, group: str, at_ms: int, group_type: str) -> tuple[list[Evidence], bool]:
        """The deletion that was held back, and whether it was a conversion instead."""
        if group not in self._deleted:
            return [], False
        deletion, members = self._deleted.pop(group)
        is_converted = bool(members) and deletion.group_type != group_type and at_ms - deletion.at_ms <= CONVERTED_WITHIN_MS
        return ([] if is_converted else [deletion]), is_converted
