"""Samples the groups of all coordinators on the broker's loop, in slices of 2 ms, and keeps the result as a frozen snapshot.

The most lagging groups get a row each, the others are only counted. A sample that takes long makes the pause after it longer. Events are
counted in group_counts.py; group_metrics.py names the metrics.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ottla.broker.clock import Sampler
from ottla.broker.coordination.groups import GroupEvents
from ottla.broker.monitoring.broker_sums import BrokerSums, CommitCounts
from ottla.broker.monitoring.group_assignments import GroupAssignments
from ottla.broker.monitoring.group_counts import GroupCounts
from ottla.broker.monitoring.group_history import GroupHistory
from ottla.broker.monitoring.group_snapshot import NO_OWNER, GroupRow, GroupsSnapshot, OffsetRow, Owner
from ottla.broker.monitoring.log_ends import NOT_OPEN, LogEnds
from ottla.broker.monitoring.time_slices import TimeSlices
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent
from ottla.groups.snapshots import GroupSummary
from ottla.history.burrow import Status, group_status
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import TopicPartition

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
                sums.by_state[group.state] += 1
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
