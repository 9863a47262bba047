"""The history of groups while it happens: what a watch reads is judged again after each look, and of old evidence only the end is kept.

Times are those of the brokers' records, whose clocks may differ from the watching machine's: a record that arrives at a look was written
since the look before, so that the smallest delay of a clock's records says how far it is behind. `now_ms` is always this machine's time.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ottla.groups.log.records import EvidenceDecoder
from ottla.history.alerts import GroupFacts, PartitionFacts
from ottla.history.group_history import Rebalance, group_histories
from ottla.history.incidents import Incident, find_incidents
from ottla.history.sources.admin import AdminSnapshots, GroupSnapshot, read_topic_names
from ottla.history.sources.archive import SNAPSHOTS_FOLDER, FolderProblems, LineProblems, find_partitions, read_batches, read_lines
from ottla.history.sources.evidence import Evidence, Kind
from ottla.history.sources.group_events import read_group_events
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from ottla.history.time_lag import LogEnds
from ottla.history.verdicts.verdict import REBALANCE
from ottla.log.segment_facts import Readable
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.model import OffsetCommit
from ottla.protocol.record_codec import DecodedRecord, UnknownRecord
from ottla.protocol.records.batch import Batch
from ottla.protocol.records.control import CommittedRecords

KEEP_MS: Final = 15 * 60_000
"""Evidence that is older is forgotten, but for the last state of each group before."""
OPEN_MS: Final = 60_000
"""An incident is open until so long after its last rebalance: the next one is of another incident."""
UNENDED_MS: Final = 10 * 60_000
"""A rebalance that has not ended by then has no record of its end."""
SETTLED_MS: Final = 30_000
"""A rebalance is counted so long after it began: until then, what follows may say more about its cause."""
_TRIM_INTERVAL_MS: Final = 60_000
_TRIM_COUNT: Final = 100_000
"""As much evidence as this is not kept untrimmed while an archive is read."""
_STATES: Final = frozenset({Kind.SYNC_COMPLETED, Kind.EMPTIED, Kind.DELETED, Kind.OBSERVED, Kind.CONVERTED})
"""Kinds of evidence that have all members of a group, or say that there are none."""


class CommitSeen:
    """The commits of one group that were read: how many, and for each partition the last offset and when it was read."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: dict[tuple[str, int], tuple[int, int]] = {}


class LiveHistory:
    """The rebalances and incidents of the last `keep_ms`. `groups`: only these, None for all.

    Give it batches and looks, then call `update`. rebalances, incidents: as of the last update. had_members: groups that have, or had, any.
    topic_names: topic ids to names, which the caller adds to. commits: by group, of the records that were read. generations: the last of
    each group.
    """

    def __init__(self, groups: Collection[str] | None = None, *, now_ms: int, keep_ms: int = KEEP_MS) -> None:
        self.rebalances: list[Rebalance] = []
        self.incidents: list[Incident] = []
        self.had_members: set[str] = set()
        self.topic_names: dict[str, str] = {}
        self.commits: dict[str, CommitSeen] = {}
        self.generations: dict[str, int] = {}
        self.log_ends = LogEnds()
        self._groups = None if groups is None else frozenset(groups)
        self._keep_ms = keep_ms
        self._now_ms = now_ms
        self._readers: dict[int, tuple[CommittedRecords, GroupRecords]] = {}
        self._events: dict[int, CommittedRecords] = {}
        self._looks = AdminSnapshots()
        self._recorded: dict[str, list[Evidence]] = {}
        self._polled: dict[str, list[Evidence]] = {}
        self._behind_ms: dict[str, int] = {}
        self._looked_at: set[str] = set()
        self._is_live = False
        self._is_changed = False
        self._trimmed_ms, self._untrimmed = now_ms, 0
        self._counted_ms: dict[str, int] = {}
        self._started_ms = now_ms

    def read_archive(self, files: Readable, now_ms: int) -> None:
        """Take what an archive has, before the first look. Raises StorageError."""
        self.topic_names.update(read_topic_names(read_lines(files, SNAPSHOTS_FOLDER, LineProblems())))
        for topic in (CONSUMER_OFFSETS, GROUP_EVENTS):
            for partition, folder in find_partitions(files, topic).items():
                for batch in read_batches(files, folder, FolderProblems()):
                    self.read_batch(topic, partition, batch, now_ms)

    def read_batch(self, topic: str, partition: int, batch: Batch, now_ms: int) -> None:
        """Take the next batch of a partition of the offsets topic or of the group events."""
        self._now_ms = now_ms
        if topic == CONSUMER_OFFSETS:
            committed, reader = self._reader(partition)
            reader.start_epoch(batch.header.leader_epoch, batch.header.max_timestamp_ms)
            self._take(reader.read(committed.read(batch.data, batch.header)), self._recorded)
        elif topic == GROUP_EVENTS:
            committed = self._events.setdefault(partition, CommittedRecords())
            found = read_group_events(committed.read(batch.data, batch.header), clock=f"{GROUP_EVENTS}-{partition}")
            self._take((item for item in found if item is not None), self._recorded)

    def read_look(self, snapshots: Sequence[GroupSnapshot], now_ms: int) -> None:
        """Take a look at all groups; it counts for groups without records. What is older was read before."""
        self._now_ms = now_ms
        self.log_ends.note(now_ms, {partition: end for snapshot in snapshots for partition, end in snapshot.ends.items()})
        for snapshot in snapshots:
            if snapshot.members:
                self.had_members.add(snapshot.group)
            self._take(self._looks.read(snapshot), self._polled)
        self._looked_at = {snapshot.group for snapshot in snapshots}
        self._is_live = True

    def update(self, now_ms: int) -> None:
        """Judge what is new."""
        self._now_ms = now_ms
        if now_ms - self._trimmed_ms >= _TRIM_INTERVAL_MS:
            self._trim()
        if self._is_changed:
            self._is_changed = False
            evidence = self._recorded | {group: items for group, items in self._polled.items() if group not in self._recorded}
            recent = [items for items in evidence.values() if self._is_recent(items[-1])]
            histories = group_histories(item for items in recent for item in items)
            self.rebalances = [
                rebalance
                for history in histories.values()
                for rebalance in history.rebalances
                if self.here_ms(rebalance.clock, rebalance.started_ms) >= now_ms - self._keep_ms
            ]
            self.incidents = find_incidents(rebalance.verdict for rebalance in self.rebalances)

    def here_ms(self, clock: str, at_ms: int) -> int:
        """A time of a broker's clock as of this machine's."""
        return at_ms + self._behind_ms.get(clock, 0)

    def open_incidents(self, now_ms: int) -> list[Incident]:
        """Those that go on, or have just ended."""
        return [incident for incident in self.incidents if self._is_open(incident, now_ms)]

    def unplanned_ms(self) -> dict[str, list[int]]:
        """By group: when its rebalances that were not planned began, by this machine's clock."""
        found: dict[str, list[int]] = {}
        for rebalance in self.rebalances:
            if rebalance.verdict.kind == REBALANCE and rebalance.verdict.planned is False:
                found.setdefault(rebalance.group, []).append(self.here_ms(rebalance.clock, rebalance.started_ms))
        return found

    def facts(self, snapshots: Iterable[GroupSnapshot], now_ms: int) -> dict[str, GroupFacts]:
        """What rules for alerts need to know of each group."""
        unplanned = self.unplanned_ms()
        incidents: dict[str, list[Incident]] = {}
        for incident in self.open_incidents(now_ms):
            for group in incident.groups:
                incidents.setdefault(group, []).append(incident)
        found = {}
        for snapshot in snapshots:
            ends, committed = snapshot.ends, snapshot.committed
            partitions = {each: PartitionFacts(offset, max(0, ends[each] - offset)) for each, offset in committed.items() if each in ends}
            waited = [self.log_ends.waited_ms(each, offset, ends[each], now_ms) for each, offset in committed.items() if each in ends]
            found[snapshot.group] = GroupFacts(
                members=len(snapshot.members),
                had_members=snapshot.group in self.had_members,
                lag=sum(each.lag for each in partitions.values()) if partitions else None,
                lag_ms=max((each for each in waited if each is not None), default=None),
                partitions=partitions,
                unplanned_ms=unplanned.get(snapshot.group, ()),
                incidents=incidents.get(snapshot.group, ()),
            )
        return found

    def take_settled(self, now_ms: int) -> Sequence[Rebalance]:
        """The rebalances since the start, avoided ones too, whose cause will hardly change any more; each once."""
        found = []
        for rebalance in self.rebalances:
            began_ms = self.here_ms(rebalance.clock, rebalance.started_ms)
            counted_ms = self._counted_ms.get(rebalance.group, self._started_ms)
            if counted_ms < began_ms <= now_ms - SETTLED_MS:
                found.append(rebalance)
        for rebalance in found:
            began_ms = self.here_ms(rebalance.clock, rebalance.started_ms)
            self._counted_ms[rebalance.group] = max(self._counted_ms.get(rebalance.group, 0), began_ms)
        return found

    def _reader(self, partition: int) -> tuple[CommittedRecords, GroupRecords]:
        known = self._readers.get(partition)
        if known is None:
            decode = EvidenceDecoder().decode

            def decode_and_note(key: bytes | None, value: bytes | None) -> OffsetCommit | DecodedRecord | UnknownRecord:
                record = decode(key, value)
                if isinstance(record, OffsetCommit) and record.offset is not None and self._is_live:
                    self._note_commit(record.group, record.topic, record.partition, record.offset)
                return record

            records = GroupRecords(
                partition, decode=decode_and_note, counts=ReadCounts(), groups=self._groups, topic_names=self.topic_names
            )
            known = self._readers[partition] = CommittedRecords(), records
        return known

    def _note_commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        seen = self.commits.get(group)
        if seen is None:
            seen = self.commits[group] = CommitSeen()
        seen.count += 1
        seen.last[topic, partition] = offset, self._now_ms

    def _take(self, found: Iterable[Evidence], into: dict[str, list[Evidence]]) -> None:
        for item in found:
            if item.group is None or (self._groups is not None and item.group not in self._groups):
                continue
            if item.kind is not Kind.COMMITS:
                self._is_changed = True
            if item.members:
                self.had_members.add(item.group)
            if item.generation is not None and item.kind in _STATES:
                self.generations[item.group] = item.generation
            into.setdefault(item.group, []).append(item)
            if self._is_live:
                delay_ms = self._now_ms - item.at_ms
                self._behind_ms[item.clock] = min(self._behind_ms.get(item.clock, delay_ms), delay_ms)
            self._untrimmed += 1
        if self._untrimmed >= _TRIM_COUNT:
            self._trim()

    def _is_recent(self, item: Evidence) -> bool:
        return self.here_ms(item.clock, item.at_ms) >= self._now_ms - self._keep_ms

    def _is_open(self, incident: Incident, now_ms: int) -> bool:
        clock = incident.verdicts[0].clock
        if now_ms - self.here_ms(clock, incident.ended_ms) < OPEN_MS:
            return True
        last = incident.verdicts[-1]
        return last.outcome == "open" and now_ms - self.here_ms(last.clock, last.started_ms) < UNENDED_MS

    def _trim(self) -> None:
        """Forget old evidence, but for the last state of each group by each clock."""
        self._trimmed_ms, self._untrimmed = self._now_ms, 0
        for by_group in (self._recorded, self._polled):
            for group, items in by_group.items():
                if self._is_recent(items[0]):
                    continue
                last = {item.clock: at for at, item in enumerate(items) if item.kind in _STATES and not self._is_recent(item)}
                kept = [item for at, item in enumerate(items) if self._is_recent(item) or last.get(item.clock) == at]
                by_group[group] = kept or items[-1:]
            for group in [name for name, items in by_group.items() if items[-1].kind is Kind.DELETED and not self._is_recent(items[-1])]:
                del by_group[group]
        if self._is_live:
            self.commits = {group: seen for group, seen in self.commits.items() if group in self._looked_at}
            self.generations = {group: number for group, number in self.generations.items() if group in self._looked_at}
        self._is_changed = True
