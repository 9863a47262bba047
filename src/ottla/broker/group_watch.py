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
from ottla.core.catalogue.catalogue import Topic
from ottla.core.diagnosis.burrow import Status, group_status
from ottla.core.errors import StorageError
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.gate import CoordinatorStatus
from ottla.core.groups.glances import GroupGlance, MemberPlan, committed_offsets, glance, group_ids, plan
from ottla.core.groups.states import GroupState
from ottla.core.model import GroupEvent, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.cluster_state import ClusterState

log = logging.getLogger("ottla.broker.groups")

INTERVAL_S: Final = 2.0
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


class GroupWatch:
    """`note` takes every group event; `begin` when the broker serves, `stop` before its logs are closed; `picture` from any thread."""

    def __init__(
        self,
        coordinators: Coordinators,
        partitions: Partitions,
        topics: Callable[[], Mapping[str, Topic]],
        cluster_id: str,
        clock: Callable[[], int],
    ) -> None:
        self._coordinators = coordinators
        self._partitions = partitions
        self._topics = topics
        self._cluster_id = cluster_id
        self._clock = clock
        self._counts = GroupCounts()
        self._history = GroupHistory()
        self._plans: dict[str, _Plan] = {}
        self._openings_left = 0
        self._task: asyncio.Task[None] | None = None
        self.picture = GroupsPicture(at_ms=clock(), cluster_id=cluster_id)

    def note(self, event: GroupEvent) -> None:
        """Counts an event."""
        self._counts.note(event)

    def begin(self) -> None:
        """Begins to watch, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Ends the watch; `picture` stays what it was."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("the picture of the groups could not be drawn; it is tried again")
            await asyncio.sleep(max(INTERVAL_S, self.picture.took_s / BUSY_SHARE_MAX))

    async def look(self) -> None:
        """Draws the picture anew."""
        turns = _Turns()
        self._openings_left = OPENINGS_MAX
        brokers: dict[int, _BrokerSums] = {}
        largest: list[tuple[tuple[int, int, str], int, _Seen]] = []
        count = 0
        for broker_id, coordinator in tuple(self._coordinators()):
            if coordinator.status is CoordinatorStatus.RESIGNED:
                continue
            sums = brokers.setdefault(broker_id, _BrokerSums())
            sums.coordinators[coordinator.status.value] += 1
            for group_id in group_ids(coordinator):
                await turns.breathe()
                seen = self._see(broker_id, coordinator, group_id, sums)
                if seen is not None:
                    count += 1
                    add = heapq.heappush if len(largest) < GROUPS_MAX else heapq.heappushpop
                    add(largest, (seen.rank, count, seen))
        rows, offsets_left = [], OFFSETS_MAX
        for _, _, seen in sorted(largest, reverse=True):
            await turns.breathe()
            row = self._draw(seen, offsets_left)
            offsets_left -= len(row.offsets)
            rows.append(row)
        self._history.forget_others()
        self._plans = {row.group_id: self._plans[row.group_id] for row in rows if row.group_id in self._plans}
        turns.end()
        self.picture = GroupsPicture(
            at_ms=self._clock(),
            took_s=turns.busy_s,
            cluster_id=self._cluster_id,
            brokers=tuple(sums.row(broker_id) for broker_id, sums in sorted(brokers.items())),
            groups=tuple(rows),
            groups_left_out=count - len(rows),
            counts=self._counts.all.copy(),
            topics=tuple((name, len(topic.leaders)) for name, topic in islice(self._topics().items(), TOPICS_MAX)),
        )

    def _see(self, broker_id: int, coordinator: Coordinator, group_id: str, sums: "_BrokerSums") -> _Seen | None:
        glanced = glance(coordinator, group_id)
        if glanced is None:
            return None
        lag_sum = lag_max = 0
        for topic, partition, value in committed_offsets(coordinator, group_id):
            sums.offsets += 1
            ends = self._range(topic, partition)
            if ends is not None and ends[1] > value.offset:
                lag_sum += ends[1] - value.offset
                lag_max = max(lag_max, ends[1] - value.offset)
        sums.by_state[glanced.state] += 1
        return _Seen(broker_id, coordinator, glanced, lag_sum, lag_max)

    def _draw(self, seen: _Seen, offsets_max: int) -> GroupRow:
        group_id, now_ms = seen.glance.group_id, self._clock()
        own = self._plan(seen)
        offsets: list[OffsetRow] = []
        by_topic: dict[str, tuple[int, int]] = {}
        left_out = 0
        for topic, partition, value in committed_offsets(seen.coordinator, group_id):
            ends = self._range(topic, partition)
            lag = None if ends is None else max(0, ends[1] - value.offset)
            offset_sum, lag_sum = by_topic.get(topic, (0, 0))
            by_topic[topic] = (offset_sum + value.offset, lag_sum + (lag or 0))
            if len(offsets) >= offsets_max:
                left_out += 1
                continue
            status = Status.OK if ends is None else self._history.status(group_id, topic, partition, value, ends[1], now_ms)
            start, end = (None, None) if ends is None else ends
            owner = own.owners.get((topic, partition), _NOBODY)
            offsets.append(OffsetRow(topic, partition, value.offset, start, end, lag, owner, status))
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
            offset_commits=0,
            offsets=tuple(offsets),
            offsets_left_out=left_out,
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

    def _range(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The first offset of a partition's log and the end; None when it is not there or not open."""
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None:
            if self._openings_left == 0:
                return None
            try:
                found = self._partitions.by_name(topic, partition)
            except StorageError:
                found = None
            self._openings_left -= 1
        return None if found is None else (found.log.log_start_offset, found.log.log_end_offset)


class _BrokerSums:
    """What one broker's coordinators add up to."""

    def __init__(self) -> None:
        self.offsets = 0
        self.by_state = {state.value: 0 for state in GroupState}
        self.coordinators = {CoordinatorStatus.LOADING.value: 0, CoordinatorStatus.ACTIVE.value: 0}

    def row(self, broker_id: int) -> BrokerRow:
        return BrokerRow(
            broker_id=broker_id,
            groups=sum(self.by_state.values()),
            offsets=self.offsets,
            by_state=self.by_state,
            coordinators=self.coordinators,
            offset_commits=0,
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
