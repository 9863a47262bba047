"""Looks at the groups again and again, on the broker's loop, for a moment a turn, and keeps what it saw as a frozen picture.

The most lagging groups are drawn one by one, the others only counted; a look that takes long makes the pause after it longer. Events are
counted elsewhere (group_counts.py), metrics are named elsewhere (group_metrics.py).
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.group_counts import GroupCounts
from ottla.broker.group_history import GroupHistory
from ottla.broker.group_picture import BrokerRow, GroupRow, GroupsPicture, OffsetRow, TopicRow
from ottla.broker.partitions import Partitions
from ottla.broker.watch import Watch
from ottla.core.catalogue.catalogue import Topic
from ottla.core.diagnosis.burrow import Status, group_status
from ottla.core.errors import StorageError
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.gate import CoordinatorStatus
from ottla.core.groups.glances import GroupGlance, MemberPlan, committed_offsets, glance, group_ids, offsets_committed, plan
from ottla.core.groups.records import OffsetValue
from ottla.core.groups.states import GroupState
from ottla.core.model import GroupEvent, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.cluster_state import ClusterState

log = logging.getLogger("ottla.broker.groups")

INTERVAL_S: Final = 1.0
BUSY_SHARE_MAX: Final = 0.05
"""Of the loop's time: a look that takes longer is followed by a longer pause."""

TURN_S: Final = 0.002
"""After so long the loop may do something else."""

GROUPS_MAX: Final = 500
"""Groups that are drawn one by one."""

OFFSETS_MAX: Final = 2_000
"""Committed offsets that are drawn one by one, over all groups: the most lagging groups' first."""

TOPICS_MAX: Final = 500
"""Topics whose number of partitions is told."""

OPENINGS_MAX: Final = 16
"""Logs that one look opens, because an offset was committed for them and nobody has used them since the start."""

Coordinators = Callable[[], Iterable[tuple[int, Coordinator]]]
"""(broker id, coordinator) of all coordinators of this process."""

_NOBODY: Final = ("", "", "")
_OFFSETS_PER_CHECK: Final = 1_000
_UNKNOWN: Final = -1
"""Where a log ends that is not open."""


def watch_groups(cluster: "ClusterState") -> "GroupWatch":
    """Begins to watch the groups of all brokers of a process, on the running loop."""
    watch = GroupWatch(
        lambda: [(node.id, loop.coordinator) for node in cluster.nodes.values() for loop in node.groups.loops()],
        cluster.partitions,
        lambda: cluster.catalogue.topics,
        cluster.cluster_id,
        cluster.clock,
    )
    cluster.events.listen(watch.note)
    watch.begin()
    return watch


class _Seen(NamedTuple):
    """A group at first sight."""

    broker_id: int
    coordinator: Coordinator
    glance: GroupGlance
    lag_sum: int
    lag_max: int

    @property
    def rank(self) -> tuple[int, int, str]:
        return self.lag_sum, self.glance.members, self.glance.group_id


class _Plan(NamedTuple):
    """A group's plan as the metrics show it: who reads what, topics, and how many read nothing."""

    generation: int
    owners: dict[tuple[str, int], tuple[str, str, str]]
    topics: tuple[TopicRow, ...]
    empty_members: int


class _Turns:
    """Gives the loop away whenever a turn is over; adds up what the turns took."""

    def __init__(self) -> None:
        self.busy_s = 0.0
        self._began = time.perf_counter()

    async def breathe(self) -> None:
        """Nothing, or a pause."""
        if time.perf_counter() - self._began >= TURN_S:
            self.end()
            await asyncio.sleep(0)
            self._began = time.perf_counter()

    def end(self) -> None:
        """The last turn is over."""
        self.busy_s += time.perf_counter() - self._began


class GroupWatch(Watch):
    """`note` takes every group event; `picture` from any thread."""

    what = "the picture of the groups"

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
        self._plans: dict[str, _Plan] = {}
        self._ends: dict[str, dict[int, int]] = {}
        self._openings_left = 0
        self._commits: dict[int, int] = {}
        self._commits_seen: dict[tuple[int, int], int] = {}
        self.picture = GroupsPicture(at_ms=clock(), cluster_id=cluster_id)

    def note(self, event: GroupEvent) -> None:
        """Counts an event."""
        self._counts.note(event)

    def pause_s(self) -> float:
        """Longer after a look that took long."""
        return max(INTERVAL_S, self.picture.took_s / BUSY_SHARE_MAX)

    async def look(self) -> None:
        """Draws the picture anew."""
        turns = _Turns()
        self._openings_left = OPENINGS_MAX
        self._ends = {}
        brokers: dict[int, _BrokerSums] = {}
        largest: list[tuple[tuple[int, int, str], int, _Seen]] = []
        count = 0
        for broker_id, coordinator in tuple(self._coordinators()):
            if coordinator.status is CoordinatorStatus.RESIGNED:
                continue
            sums = brokers.setdefault(broker_id, _BrokerSums())
            sums.coordinators[coordinator.status.value] += 1
            self._add_commits(broker_id, coordinator)
            for group_id in group_ids(coordinator):
                await turns.breathe()
                seen = await self._see(broker_id, coordinator, group_id, sums, turns)
                if seen is not None:
                    count += 1
                    add = heapq.heappush if len(largest) < GROUPS_MAX else heapq.heappushpop
                    add(largest, (seen.rank, count, seen))
        rows, offsets_left = [], OFFSETS_MAX
        for _, _, seen in sorted(largest, reverse=True):
            await turns.breathe()
            row = await self._draw(seen, offsets_left, turns)
            offsets_left -= len(row.offsets)
            rows.append(row)
        self._history.forget_others()
        self._ends = {}
        self._plans = {row.group_id: self._plans[row.group_id] for row in rows if row.group_id in self._plans}
        turns.end()
        self.picture = GroupsPicture(
            at_ms=self._clock(),
            took_s=turns.busy_s,
            cluster_id=self._cluster_id,
            brokers=tuple(sums.row(broker_id, self._commits[broker_id]) for broker_id, sums in sorted(brokers.items())),
            groups=tuple(rows),
            groups_left_out=count - len(rows),
            counts=self._counts.all.copy(),
            topics=tuple((name, len(topic.leaders)) for name, topic in islice(self._topics().items(), TOPICS_MAX)),
        )

    def _add_commits(self, broker_id: int, coordinator: Coordinator) -> None:
        """Adds what was committed since the last look: a coordinator that comes back begins to count anew, its broker does not."""
        name, count = (broker_id, coordinator.partition), offsets_committed(coordinator)
        last = self._commits_seen.get(name, 0)
        self._commits_seen[name] = count
        self._commits[broker_id] = self._commits.get(broker_id, 0) + (count - last if count >= last else count)

    async def _see(self, broker_id: int, coordinator: Coordinator, group_id: str, sums: "_BrokerSums", turns: "_Turns") -> _Seen | None:
        glanced = glance(coordinator, group_id)
        if glanced is None:
            return None
        lag_sum = lag_max = 0
        for topic, partitions, values in committed_offsets(coordinator, group_id):
            ends = self._ends.setdefault(topic, {})
            sums.offsets += len(partitions)
            for at, (partition, value) in enumerate(zip(partitions, values, strict=True), 1):
                if partition not in ends:
                    self._look_up(topic, partition)
                    await turns.breathe()
                end = ends[partition]
                if end > value.offset:
                    lag_sum += end - value.offset
                    lag_max = max(lag_max, end - value.offset)
                if at % _OFFSETS_PER_CHECK == 0:
                    await turns.breathe()
        sums.by_state[glanced.state] += 1
        return _Seen(broker_id, coordinator, glanced, lag_sum, lag_max)

    async def _draw(self, seen: _Seen, offsets_max: int, turns: "_Turns") -> GroupRow:
        group_id = seen.glance.group_id
        own = self._plan(seen)
        offsets: list[OffsetRow] = []
        by_topic: dict[str, tuple[int, int]] = {}
        count = 0
        for topic, partitions, values in committed_offsets(seen.coordinator, group_id):
            ends = self._ends.setdefault(topic, {})
            count += len(partitions)
            offset_sum = lag_sum = 0
            for at, (partition, value) in enumerate(zip(partitions, values, strict=True), 1):
                if partition not in ends:
                    self._look_up(topic, partition)
                    await turns.breathe()
                end = ends[partition]
                offset_sum += value.offset
                lag_sum += max(0, end - value.offset) if end != _UNKNOWN else 0
                if len(offsets) < offsets_max:
                    owner = own.owners.get((topic, partition), _NOBODY)
                    offsets.append(self._row(group_id, topic, partition, value, end, owner))
                if at % _OFFSETS_PER_CHECK == 0:
                    await turns.breathe()
            by_topic[topic] = offset_sum, lag_sum
        return GroupRow(
            group_id=group_id,
            broker_id=seen.broker_id,
            state=seen.glance.state,
            generation=seen.glance.generation,
            protocol_type=seen.glance.protocol_type,
            protocol=seen.glance.protocol,
            members=seen.glance.members,
            static_members=seen.glance.static_members,
            empty_members=own.empty_members,
            lag_sum=seen.lag_sum,
            lag_max=seen.lag_max,
            offset_commits=seen.glance.offset_commits,
            offsets=tuple(offsets),
            offsets_left_out=count - len(offsets),
            by_topic=by_topic,
            topics=own.topics,
            status=group_status(row.status for row in offsets),
            counts=self._counts.of(group_id).copy(),
        )

    def _plan(self, seen: _Seen) -> _Plan:
        """The group's plan, read once a generation; while it rebalances nobody reads anything."""
        group_id, generation = seen.glance.group_id, seen.glance.generation
        known = self._plans.get(group_id)
        if seen.glance.state == GroupState.STABLE.value:
            if known is not None and known.generation == generation:
                return known
            members = plan(seen.coordinator, group_id)
            if members is not None:
                known = self._plans[group_id] = _drawn_plan(generation, members)
                return known
        self._plans.pop(group_id, None)
        return _Plan(generation, {}, (), seen.glance.members)

    def _row(self, group_id: str, topic: str, partition: int, value: OffsetValue, end: int, owner: tuple[str, str, str]) -> OffsetRow:
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None or end == _UNKNOWN:
            return OffsetRow(topic, partition, value.offset, None, None, None, owner, Status.OK)
        status = self._history.status(group_id, topic, partition, value, end, self._clock())
        return OffsetRow(topic, partition, value.offset, found.log.log_start_offset, end, max(0, end - value.offset), owner, status)

    def _look_up(self, topic: str, partition: int) -> None:
        """Remembers where a partition's log ends, for this look; _UNKNOWN when it is not there or not open."""
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None and self._openings_left > 0:
            self._openings_left -= 1
            try:
                found = self._partitions.by_name(topic, partition)
            except StorageError:
                found = None  # it is offline: the health says so
        self._ends[topic][partition] = _UNKNOWN if found is None else found.log.log_end_offset


class _BrokerSums:
    """What one broker's coordinators add up to."""

    def __init__(self) -> None:
        self.offsets = 0
        self.by_state = {state.value: 0 for state in GroupState}
        self.coordinators = {CoordinatorStatus.LOADING.value: 0, CoordinatorStatus.ACTIVE.value: 0}

    def row(self, broker_id: int, offset_commits: int) -> BrokerRow:
        return BrokerRow(
            broker_id=broker_id,
            groups=sum(self.by_state.values()),
            offsets=self.offsets,
            by_state=self.by_state,
            coordinators=self.coordinators,
            offset_commits=offset_commits,
        )


def _drawn_plan(generation: int, members: Iterable[MemberPlan]) -> _Plan:
    owners: dict[tuple[str, int], tuple[str, str, str]] = {}
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
    return _Plan(generation, owners, tuple(TopicRow(topic, *counts) for topic, counts in sorted(topics.items())), empty_members)
