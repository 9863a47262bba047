"""Samples the groups of all coordinators on the broker's loop, in slices of 2 ms, and keeps the result as a frozen snapshot.

The most lagging groups get a row each, the others are only counted. A sample that takes long makes the pause after it longer. Commits are
sampled: of several between two samples the last one counts; with the last few ends of the logs they give Burrow's status. Every group
event is counted: rebalances by cause, how they ended and how long they took. The number of groups with counts of their own is bounded; the
sums are complete. group_metrics.py names the metrics.
"""

import asyncio
import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ottla.broker.clock import Sampler
from ottla.broker.coordination.groups import GroupEvents
from ottla.broker.monitoring.group_snapshot import (
    NO_OWNER,
    BrokerSums,
    CommitCounts,
    Durations,
    EventCounts,
    GroupRow,
    GroupsSnapshot,
    OffsetRow,
    Owner,
    TopicRow,
    cause_key,
)
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.groups.classic.states import GroupState
from ottla.groups.consumer.group import CONSUMER
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent, TriggerCode
from ottla.groups.snapshots import GroupSummary, MemberAssignment
from ottla.history.burrow import DEFAULTS, LOG_END_INTERVAL_MS, BurrowSettings, CommitWindow, Status, group_status, partition_status
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

SLICE_S: Final = 0.002

OPENINGS_MAX: Final = 16
"""Logs that one sample opens: offsets are committed for them, and they have not been used since the start."""

NOT_OPEN: Final = -1
"""The end of a log that is not open."""

SETTINGS: Final = BurrowSettings(min_distance=5)
"""Commits are sampled each second: without a distance the window would be the last ten seconds."""

GROUPS_COUNTED_MAX: Final = 50_000
"""Beyond them the group with the oldest last event is forgotten; with its next event it counts from 0."""

UNKNOWN: Final = "UNKNOWN"
"""The cause of a rebalance that had begun when the broker began to count."""

_MEMBER_PHASES: Final = (("revoke", "revocation_ms"), ("reconcile", "reconciliation_ms"))
_DEPARTURES: Final = frozenset(
    code.value
    for code in (
        *(TriggerCode.LEAVE, TriggerCode.POLL_TIMEOUT, TriggerCode.ADMIN_REMOVE, TriggerCode.EXPIRE_HEARTBEAT),
        *(TriggerCode.REBALANCE_TIMEOUT, TriggerCode.JOIN_TIMEOUT, TriggerCode.SYNC_TIMEOUT),
    )
)
"""Triggers of new epochs that Kafka does not count as rebalances of consumer groups."""

INTERVAL_S: Final = 1.0
BUSY_SHARE_MAX: Final = 0.05
"""Of the loop's time: a sample that takes longer is followed by a longer pause."""

GROUPS_MAX: Final = 500
"""Groups with a row of their own."""

OFFSETS_MAX: Final = 2_000
"""Committed offsets with a row of their own, over all groups: the most lagging groups' first."""

TOPICS_MAX: Final = 500
"""Topics whose number of partitions is shown."""

Coordinators = Callable[[], Iterable[tuple[int, GroupCoordinator]]]
"""(broker id, coordinator) of all coordinators of this process."""

_OFFSETS_PER_CHECK: Final = 1_000


class TimeSlices:
    """The slices of one piece of work. `busy_s`: the time of all slices so far, in seconds."""

    def __init__(self) -> None:
        self.busy_s = 0.0
        self._started_s = time.perf_counter()

    async def pause_if_over(self) -> None:
        """Let the loop run other tasks if the slice is over; else do nothing."""
        if time.perf_counter() - self._started_s >= SLICE_S:
            self.end()
            await asyncio.sleep(0)
            self._started_s = time.perf_counter()

    def end(self) -> None:
        """End the slice: after the last one, no more work follows."""
        self.busy_s += time.perf_counter() - self._started_s


class LogEnds:
    """Log end offsets by topic and partition, each looked up once in a sample."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._openings_left = OPENINGS_MAX
        self._ends: dict[str, dict[int, int]] = {}

    def of_topic(self, topic: str) -> dict[int, int]:
        """The known ends of a topic's logs; `look_up` adds to them."""
        return self._ends.setdefault(topic, {})

    def look_up(self, topic: str, partition: int) -> None:
        """Add the end of a partition's log; NOT_OPEN where the partition does not exist or is not open."""
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None and self._openings_left > 0:
            self._openings_left -= 1
            try:
                found = self._partitions.by_name(topic, partition)
            except StorageError:
                found = None  # it is offline: the health report says so
        self._ends[topic][partition] = NOT_OPEN if found is None else found.log.log_end_offset


class GroupAssignment(NamedTuple):
    """The assignment of one generation."""

    generation: int
    owners: dict[tuple[str, int], Owner]
    topics: tuple[TopicRow, ...]
    empty_members: int


class GroupAssignments:
    """Caches assignments: each is read once a generation."""

    def __init__(self) -> None:
        self._known: dict[str, GroupAssignment] = {}

    def of(self, coordinator: GroupCoordinator, group: GroupSummary) -> GroupAssignment:
        """The assignment of a group. While it rebalances, no partition has an owner."""
        known = self._known.get(group.group_id)
        if group.state == GroupState.STABLE.value:
            if known is not None and known.generation == group.generation:
                return known
            members = coordinator.assignments(group.group_id)
            if members is not None:
                known = self._known[group.group_id] = group_assignment(group.generation, members)
                return known
        self._known.pop(group.group_id, None)
        return GroupAssignment(group.generation, {}, (), group.members)

    def keep(self, group_ids: Iterable[str]) -> None:
        """Forget all groups but these."""
        self._known = {group_id: self._known[group_id] for group_id in group_ids if group_id in self._known}


def group_assignment(generation: int, members: Iterable[MemberAssignment]) -> GroupAssignment:
    """What the members of a generation are assigned."""
    owners: dict[tuple[str, int], Owner] = {}
    topics: dict[str, list[int]] = {}
    empty_members = 0
    for member in members:
        owner = (member.member_id, member.client_id, member.client_host)
        owners.update(dict.fromkeys(member.partitions, owner))
        empty_members += not member.partitions
        for topic in {topic for topic, _ in member.partitions}:
            topics.setdefault(topic, [0, 0])[0] += 1
        for topic, _ in member.partitions:
            topics[topic][1] += 1
    return GroupAssignment(generation, owners, tuple(TopicRow(topic, *counts) for topic, counts in sorted(topics.items())), empty_members)


class _Commits:
    __slots__ = ("last_ms", "window")

    def __init__(self) -> None:
        self.window = CommitWindow(SETTINGS)
        self.last_ms: int | None = None


class _RecentEnds:
    __slots__ = ("ends", "taken_at_ms")

    def __init__(self) -> None:
        self.ends: deque[int] = deque(maxlen=DEFAULTS.intervals)
        self.taken_at_ms = 0


class GroupHistory:
    """Call `status` for each listed partition in each sample, and `forget_others` at its end."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, str, int], _Commits] = {}
        self._log_ends: dict[TopicPartition, _RecentEnds] = {}
        self._listed: set[tuple[str, str, int]] = set()

    def status(self, group_id: str, topic: str, partition: int, value: OffsetValue, log_end: int, now_ms: int) -> Status:
        """Add the committed offset, if it is new, and the log end; return the partition's status."""
        name = (group_id, topic, partition)
        self._listed.add(name)
        known = self._commits.get(name)
        if known is None:
            known = self._commits[name] = _Commits()
        lag = max(0, log_end - value.offset)
        if known.last_ms != value.commit_timestamp_ms:
            known.last_ms = value.commit_timestamp_ms
            known.window.add(value.offset, value.commit_timestamp_ms, lag)
        return partition_status(known.window.commits, self._ends(TopicPartition(topic, partition), log_end, now_ms), lag, now_ms)

    def forget_others(self) -> None:
        """Forget the partitions without a call of `status` since the last time."""
        listed, self._listed = self._listed, set()
        for gone in self._commits.keys() - listed:
            del self._commits[gone]
        for partition in self._log_ends.keys() - {TopicPartition(topic, number) for _, topic, number in listed}:
            del self._log_ends[partition]

    def _ends(self, partition: TopicPartition, log_end: int, now_ms: int) -> deque[int]:
        known = self._log_ends.get(partition)
        if known is None:
            known = self._log_ends[partition] = _RecentEnds()
        if not known.ends or now_ms - known.taken_at_ms >= LOG_END_INTERVAL_MS:
            known.ends.append(log_end)
            known.taken_at_ms = now_ms
        return known.ends


class _Counted:
    """One group: its counts, when its rebalance began (None: there is none), and whether a generation waits for its assignment."""

    __slots__ = ("awaits_assignment", "began_at_ms", "counts")

    def __init__(self) -> None:
        self.counts = EventCounts()
        self.began_at_ms: int | None = None
        self.awaits_assignment = False


class GroupCounts:
    """`note` takes events in the order in which they happened."""

    def __init__(self) -> None:
        self.all = EventCounts()
        self._groups: OrderedDict[str, _Counted] = OrderedDict()

    def of(self, group_id: str) -> EventCounts:
        """The counts of one group, which later events change."""
        counted = self._groups.get(group_id)
        return EventCounts() if counted is None else counted.counts

    def note(self, event: GroupEvent) -> None:
        """Count one event."""
        counted = self._groups.get(event.group)
        if counted is None:
            counted = self._groups[event.group] = _Counted()
            if len(self._groups) > GROUPS_COUNTED_MAX:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(event.group)
        for counts in (counted.counts, self.all):
            self._add(counts, counted, event)
        self._follow(counted, event)
        if event.kind == "deleted":
            del self._groups[event.group]

    def _add(self, counts: EventCounts, counted: _Counted, event: GroupEvent) -> None:
        kind = event.kind
        if kind == "trigger":
            cause = cause_key(event.trigger or UNKNOWN, event.instance_id)
            by_cause = counts.coalesced if event.coalesced else counts.rebalances
            by_cause[cause] = by_cause.get(cause, 0) + 1
            if not event.coalesced and counted.awaits_assignment:
                _end(counts, "superseded")
        elif kind in ("join_completed", "emptied"):
            if counted.began_at_ms is None:
                counts.rebalances[UNKNOWN] = counts.rebalances.get(UNKNOWN, 0) + 1
            if kind == "emptied":
                _end(counts, "emptied")
            elif counted.began_at_ms is not None:
                _add_duration(counts, "join", event.at_ms - counted.began_at_ms)
        elif kind == "sync_completed":
            _add_duration(counts, "sync", event.evidence.get("sync_phase_ms", 0))
            _end(counts, "completed")
            counts.classic_completed += 1
        elif kind in ("loaded", "deleted"):
            if counted.began_at_ms is not None:
                _end(counts, "interrupted")
        elif kind == "epoch_bumped":
            counts.consumer_rebalances += event.trigger not in _DEPARTURES
            by_cause = counts.coalesced if event.coalesced else counts.rebalances
            cause = cause_key(event.trigger or UNKNOWN, event.instance_id)
            by_cause[cause] = by_cause.get(cause, 0) + 1
            if event.state_to == "Empty" and (counted.began_at_ms is not None or not event.coalesced):
                _end(counts, "emptied")
        elif kind == "target_assigned":
            if counted.began_at_ms is not None:
                _add_duration(counts, "assign", event.at_ms - counted.began_at_ms)
            _end(counts, "completed")
        elif kind == "member_reconciled":
            for phase, figure in _MEMBER_PHASES:
                if figure in event.evidence:
                    _add_duration(counts, phase, event.evidence[figure])
        elif kind == "static_replaced":
            counts.static_replaced += 1
        elif kind == "static_fenced":
            counts.static_fenced += 1
        elif kind == "offsets_expired":
            counts.offsets_expired += event.evidence.get("offset_count", 0)

    @staticmethod
    def _follow(counted: _Counted, event: GroupEvent) -> None:
        if event.kind == "trigger":
            if not event.coalesced or counted.began_at_ms is None:
                counted.began_at_ms = event.at_ms
                counted.awaits_assignment = False
        elif event.kind == "join_completed":
            counted.awaits_assignment = True
            if counted.began_at_ms is None:
                counted.began_at_ms = event.at_ms
        elif event.kind == "epoch_bumped" and event.state_to != "Empty":
            if counted.began_at_ms is None:
                counted.began_at_ms = event.at_ms
        elif event.kind in ("sync_completed", "emptied", "loaded", "deleted", "target_assigned", "epoch_bumped"):
            counted.began_at_ms, counted.awaits_assignment = None, False


def _end(counts: EventCounts, outcome: str) -> None:
    counts.outcomes[outcome] = counts.outcomes.get(outcome, 0) + 1


def _add_duration(counts: EventCounts, phase: str, duration_ms: int) -> None:
    counts.durations[phase] = counts.durations.get(phase, Durations()).plus(duration_ms / 1000)


class _RankedGroup(NamedTuple):
    """A group and its lag, by which the groups with a row are chosen."""

    broker_id: int
    coordinator: GroupCoordinator
    group: GroupSummary
    lag_sum: int
    lag_max: int

    @property
    def rank(self) -> tuple[int, int, str]:
        return self.lag_sum, self.group.members, self.group.group_id


class _Sample:
    """What one sample collects."""

    def __init__(self, partitions: Partitions) -> None:
        self.slices = TimeSlices()
        self.ends = LogEnds(partitions)
        self.brokers: dict[int, BrokerSums] = {}
        self.largest: list[tuple[tuple[int, int, str], int, _RankedGroup]] = []
        self.group_count = 0

    def add(self, ranked: _RankedGroup) -> None:
        """Count the group, and keep it while it is one of the GROUPS_MAX that lag most."""
        self.group_count += 1
        push = heapq.heappush if len(self.largest) < GROUPS_MAX else heapq.heappushpop
        push(self.largest, (ranked.rank, self.group_count, ranked))


class GroupSampler(Sampler):
    """`note` takes every group event; any thread may read `snapshot`."""

    subject = "the groups"

    def __init__(
        self,
        coordinators: Coordinators,
        partitions: Partitions,
        topics: Callable[[], Mapping[str, Topic]],
        cluster_id: str,
        clock: Callable[[], int],
    ) -> None:
        super().__init__()
        self._coordinators = coordinators
        self._partitions = partitions
        self._topics = topics
        self._cluster_id = cluster_id
        self._clock = clock
        self._counts = GroupCounts()
        self._history = GroupHistory()
        self._assignments = GroupAssignments()
        self._commits = CommitCounts()
        self.snapshot = GroupsSnapshot(at_ms=clock(), cluster_id=cluster_id)

    def note(self, event: GroupEvent) -> None:
        """Count an event."""
        self._counts.note(event)

    def pause_s(self) -> float:
        """Longer after a sample that took long."""
        return max(INTERVAL_S, self.snapshot.took_s / BUSY_SHARE_MAX)

    async def sample(self) -> None:
        """Replace the snapshot."""
        sample = _Sample(self._partitions)
        for broker_id, coordinator in tuple(self._coordinators()):
            if coordinator.status is not CoordinatorStatus.RESIGNED:
                await self._scan(broker_id, coordinator, sample)
        rows, offsets_left = [], OFFSETS_MAX
        for _, _, ranked in sorted(sample.largest, reverse=True):
            await sample.slices.pause_if_over()
            row = await self._row(ranked, offsets_left, sample)
            offsets_left -= len(row.offsets)
            rows.append(row)
        self._history.forget_others()
        self._assignments.keep(row.group_id for row in rows)
        sample.slices.end()
        self.snapshot = GroupsSnapshot(
            at_ms=self._clock(),
            took_s=sample.slices.busy_s,
            cluster_id=self._cluster_id,
            brokers=tuple(sums.row(broker_id, self._commits.of(broker_id)) for broker_id, sums in sorted(sample.brokers.items())),
            groups=tuple(rows),
            groups_left_out=sample.group_count - len(rows),
            counts=self._counts.all.copy(),
            topics=tuple((name, len(topic.leaders)) for name, topic in islice(self._topics().items(), TOPICS_MAX)),
        )

    async def _scan(self, broker_id: int, coordinator: GroupCoordinator, sample: _Sample) -> None:
        """Add a coordinator's groups to the broker's sums, and rank them."""
        sums = sample.brokers.setdefault(broker_id, BrokerSums())
        sums.coordinators[coordinator.status.value] += 1
        self._commits.add(broker_id, coordinator.partition, coordinator.state.offsets_committed)
        for group_id in list(coordinator.state.groups):
            await sample.slices.pause_if_over()
            group = coordinator.summary(group_id)
            if group is not None:
                lag_sum, lag_max = await self._lag(coordinator, group_id, sums, sample)
                by_state = sums.consumer_groups if group.group_type == CONSUMER else sums.by_state
                by_state[group.state] += 1
                sample.add(_RankedGroup(broker_id, coordinator, group, lag_sum, lag_max))

    async def _lag(self, coordinator: GroupCoordinator, group_id: str, sums: BrokerSums, sample: _Sample) -> tuple[int, int]:
        """The sum and the maximum of a group's lags."""
        lag_sum = lag_max = 0
        for topic, partitions, values in coordinator.committed_offsets(group_id):
            ends = sample.ends.of_topic(topic)
            sums.offsets += len(partitions)
            for at, (partition, value) in enumerate(zip(partitions, values, strict=True), 1):
                if partition not in ends:
                    sample.ends.look_up(topic, partition)
                    await sample.slices.pause_if_over()
                end = ends[partition]
                if end > value.offset:
                    lag_sum += end - value.offset
                    lag_max = max(lag_max, end - value.offset)
                if at % _OFFSETS_PER_CHECK == 0:
                    await sample.slices.pause_if_over()
        return lag_sum, lag_max

    async def _row(self, ranked: _RankedGroup, offsets_max: int, sample: _Sample) -> GroupRow:
        group = ranked.group
        assignment = self._assignments.of(ranked.coordinator, group)
        offsets: list[OffsetRow] = []
        by_topic: dict[str, tuple[int, int]] = {}
        count = 0
        for topic, partitions, values in ranked.coordinator.committed_offsets(group.group_id):
            ends = sample.ends.of_topic(topic)
            count += len(partitions)
            offset_sum = lag_sum = 0
            for at, (partition, value) in enumerate(zip(partitions, values, strict=True), 1):
                if partition not in ends:
                    sample.ends.look_up(topic, partition)
                    await sample.slices.pause_if_over()
                end = ends[partition]
                offset_sum += value.offset
                lag_sum += max(0, end - value.offset) if end != NOT_OPEN else 0
                if len(offsets) < offsets_max:
                    owner = assignment.owners.get((topic, partition), NO_OWNER)
                    offsets.append(self._offset_row(group.group_id, topic, partition, value, end, owner))
                if at % _OFFSETS_PER_CHECK == 0:
                    await sample.slices.pause_if_over()
            by_topic[topic] = offset_sum, lag_sum
        return GroupRow(
            group_id=group.group_id,
            broker_id=ranked.broker_id,
            state=group.state,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            members=group.members,
            static_members=group.static_members,
            empty_members=assignment.empty_members,
            lag_sum=ranked.lag_sum,
            lag_max=ranked.lag_max,
            offset_commits=group.offset_commits,
            group_type=group.group_type,
            offsets=tuple(offsets),
            offsets_left_out=count - len(offsets),
            by_topic=by_topic,
            topics=assignment.topics,
            status=group_status(row.status for row in offsets),
            counts=self._counts.of(group.group_id).copy(),
        )

    def _offset_row(self, group_id: str, topic: str, partition: int, value: OffsetValue, end: int, owner: Owner) -> OffsetRow:
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None or end == NOT_OPEN:
            return OffsetRow(topic, partition, value.offset, None, None, None, owner, Status.OK)
        status = self._history.status(group_id, topic, partition, value, end, self._clock())
        return OffsetRow(topic, partition, value.offset, found.log.log_start_offset, end, max(0, end - value.offset), owner, status)


def start_group_sampler(
    *,
    coordinators: Coordinators,
    partitions: Partitions,
    cluster_metadata: ClusterMetadata,
    cluster_id: str,
    clock: Callable[[], int],
    events: GroupEvents,
) -> GroupSampler:
    """Start to sample the groups of all brokers of a process, on the running loop."""
    sampler = GroupSampler(coordinators, partitions, lambda: cluster_metadata.topics, cluster_id, clock)
    events.add_listener(sampler.note)
    sampler.start()
    return sampler
