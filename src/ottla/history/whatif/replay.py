"""Replays a group's behaviour through the group coordinator in virtual time.

The coordinator is the broker's own, with its timers, and the members run the membership of `ottla.Consumer`; only their processes are
modelled. Nothing is random, so equal behaviour gives equal results. Heartbeats are not simulated one by one: a session that ends is
extended to the next thing that happens, and members send a real one when the group has changed, as late after the change as the recorded
group took.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from ottla.coordinator.coordinator import FinishLoading
from ottla.coordinator.timers import Timer
from ottla.groups.assignors import coordinator_assignors, find_assignor
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.commands import Command, GroupEffects
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent
from ottla.groups.settings import GroupSettings
from ottla.history.sources.evidence import Cause
from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, Reaction
from ottla.history.whatif.consumer_member import ConsumerModelMember
from ottla.history.whatif.member import RETRY_MS, ClassicModelMember, PartitionStops
from ottla.history.whatif.requests import MakeCommand
from ottla.protocol.record_codec import uuid_text

MARGIN_MS: Final = 60_000
"""How long a replay goes on after the last timeout that an action may cause."""
DEFAULT_REACTION: Final = Reaction(0, 1_500, 10)
"""Half of the default heartbeat interval, where no rebalance was recorded."""
SAME_CHANGE_MS: Final = 60_000
"""Members notice a change of topics at most this far apart."""
EARLIER_MS: Final = 3_000
"""A rebalance in a replay may begin so much earlier than the recorded one."""
REMOVALS: Final = frozenset(
    {"LEAVE", "POLL_TIMEOUT", "ADMIN_REMOVE", "EXPIRE_HEARTBEAT", "JOIN_TIMEOUT", "SYNC_TIMEOUT", "REBALANCE_TIMEOUT"}
)
"""Triggers of a member that the coordinator has removed."""
TRIGGERS: Final = ("trigger", "epoch_bumped")
"""The kinds of events with which a rebalance begins."""


class Origin(NamedTuple):
    """What caused a trigger: the process ("": the leader joined again by itself) and the index of its action."""

    process: str
    action: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The events of a replay from the start of the evidence on, the origin of each trigger (by its place in `events`), and the stops."""

    events: tuple[GroupEvent, ...]
    origins: Mapping[int, Origin]
    rebalancing_ms: int
    waiting_ms: int


def replay(behaviour: GroupBehaviour) -> Replayed:
    """Run the whole behaviour. Raises ValueError for an assignor that is not known."""
    return _Replay(behaviour).run()


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    leaders: tuple[int, ...]


class ReplayTopics:
    """The topics of a replay as a consumer group's coordinator sees them."""

    def __init__(self) -> None:
        self.topics: dict[str, _Topic] = {}
        self.topics_by_id: dict[bytes, _Topic] = {}
        self.topic_versions: dict[str, int] = {}
        self.topics_version = self.topics_created_version = 0

    def set(self, counts: Mapping[str, int]) -> None:
        """These are the topics from now on, with so many partitions."""
        self.topics_version += 1
        for name in counts.keys() | self.topics.keys():
            if name not in self.topics:
                self.topics_created_version = self.topics_version
            if name not in self.topics or name not in counts or len(self.topics[name].leaders) != counts[name]:
                self.topic_versions[name] = self.topics_version
        self.topics = {name: _Topic(name, name.encode()[-16:].rjust(16, b"."), (0,) * count) for name, count in counts.items()}
        self.topics_by_id = {topic.topic_id: topic for topic in self.topics.values()}


class _Replay:
    """One run; the environment of its members."""

    def __init__(self, behaviour: GroupBehaviour) -> None:
        self.group_id = behaviour.group
        if behaviour.is_consumer_type:
            (self.assignor,) = coordinator_assignors([behaviour.protocol]).values()
        else:
            self.assignor = find_assignor(behaviour.protocol)
        self.topics = ReplayTopics()
        self.stops = PartitionStops()
        self._behaviour = behaviour
        timeouts_ms = [time for each in behaviour.processes for time in (each.session_timeout_ms, each.rebalance_timeout_ms)]
        self._ends_ms = behaviour.ended_ms + max(timeouts_ms, default=0) + MARGIN_MS
        make = ConsumerModelMember if behaviour.is_consumer_type else ClassicModelMember
        self._members: list[ClassicModelMember | ConsumerModelMember] = [make(process, self) for process in behaviour.processes]
        self._by_name = {member.process.name: member for member in self._members}
        self._by_id: dict[str, ClassicModelMember | ConsumerModelMember] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0
        self._receivers: dict[int, Callable[[Any], None]] = {}
        self._events: list[GroupEvent] = []
        self._origins: dict[int, Origin] = {}
        self._leader_origin: int | None = None
        self._unaware: set[str] = set()
        """Processes that were removed, until they are back as recorded."""
        self._rebalanced_ms: list[int] = []
        """When each rebalance began."""
        settings = GroupSettings(
            group_min_session_timeout_ms=1,
            group_max_session_timeout_ms=2**31 - 1,
            group_initial_rebalance_delay_ms=behaviour.initial_rebalance_delay_ms,
            consumer_session_timeout_ms=max((each.session_timeout_ms for each in behaviour.processes), default=1),
            consumer_heartbeat_interval_ms=behaviour.heartbeat_interval_ms,
            consumer_assignors={self.assignor.name: self.assignor},
        )
        self._coordinator = GroupCoordinator(settings, topics=self.topics)
        starts_ms = [action.at_ms for process in behaviour.processes for action in process.actions]
        self.now_ms = min([behaviour.started_ms, *starts_ms])

    def run(self) -> Replayed:
        """Run until nothing more can follow from the recorded actions."""
        self._submit(FinishLoading())
        for member in self._members:
            for index, action in enumerate(member.process.actions):
                self._at(action.at_ms, lambda member=member, index=index, action=action: self._act(member, index, action))  # type: ignore[misc]
        if self._behaviour.is_consumer_type:
            for at_ms, counts in self._behaviour.partition_counts:
                self._at(at_ms, lambda counts=counts: self._change_topics(counts))  # type: ignore[misc]
            self.topics.set(self.partition_counts())
        else:
            for index, rejoin in enumerate(self._behaviour.leader_rejoins):
                self._at(rejoin.at_ms, lambda index=index: self._rejoin_leader(index))  # type: ignore[misc]
        # Before anything else of that millisecond.
        heappush(self._queue, (self._behaviour.started_ms, -1, self._begin))
        while self._step():
            pass
        self.stops.advance(self._ends_ms, is_running=self._is_running())
        return Replayed(
            events=tuple(self._events),
            origins=self._origins,
            rebalancing_ms=self.stops.rebalancing_ms,
            waiting_ms=self.stops.waiting_ms,
        )

    # The members' environment

    def send(self, make: MakeCommand, receive: Callable[[Any], None]) -> None:
        """Send a command; `receive` gets its result."""
        self._queued += 1
        self._receivers[self._queued] = receive
        self._submit(make(self._queued))

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_ms`."""
        self._at(self.now_ms + delay_ms, act)

    def new_member_id(self, process: str) -> str:
        """An id that no member has had; ids order as the names do, as those of clients with these client ids."""
        member_id = f"{process}-{len(self._by_id):08}"
        self._by_id[member_id] = self._by_name[process]
        return member_id

    def partition_counts(self) -> Mapping[str, int]:
        """The partitions of each topic now."""
        counts = self._behaviour.partition_counts
        at = bisect_right(counts, self.now_ms, key=lambda each: each[0]) - 1
        return counts[max(at, 0)][1] if counts else {}

    def sync_delay_ms(self) -> int:
        """How long the leader took at this time."""
        return self._reaction().sync_ms

    def is_settled(self) -> bool:
        """Whether no member has a way to go to its target (KIP-848)."""
        group = self._coordinator.state.groups.get(self.group_id)
        return not isinstance(group, ConsumerGroup) or group.state_name in ("Empty", "Stable")

    def topic_names(self) -> Mapping[str, str]:
        """The names of topics by their ids, as Kafka prints them."""
        return {uuid_text(topic_id): topic.name for topic_id, topic in self.topics.topics_by_id.items()}

    def keep_session(self, member_id: str, instance_id: str | None) -> None:
        """Heartbeats of this member have reached the coordinator until now."""
        self._extend_session(member_id, instance_id, self.now_ms)

    # Time

    def _at(self, at_ms: int, act: Callable[[], None]) -> None:
        self._queued += 1
        heappush(self._queue, (at_ms, self._queued, act))

    def _step(self) -> bool:
        """Do what comes next, timers before actions of the same time; False at the end."""
        deadline_ms = self._coordinator.next_deadline_ms()
        next_ms = self._queue[0][0] if self._queue else self._ends_ms
        if deadline_ms is not None and deadline_ms < next_ms:
            next_ms = deadline_ms
        if next_ms >= self._ends_ms:
            return False
        if next_ms > self.now_ms:
            self.stops.advance(next_ms, is_running=self._is_running())
            self.now_ms = next_ms
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self._extend_sessions()
            if self._coordinator.next_deadline_ms() == deadline_ms:
                self._apply(self._coordinator.fire_timers(now_ms=self.now_ms))
        else:
            heappop(self._queue)[2]()
        return True

    def _extend_sessions(self) -> None:
        """Extend each session that ends now and whose process sends heartbeats, until something happens."""
        until_ms = self._queue[0][0] if self._queue else self._ends_ms
        for member_id, instance_id, session in list(self._sessions()):
            if session.at_ms is not None and session.at_ms <= self.now_ms and self._by_id[member_id].keeps(member_id):
                self._extend_session(member_id, instance_id, until_ms)

    def _sessions(self) -> Iterator[tuple[str, str | None, Timer]]:
        """The id, instance id and session of each member."""
        group = self._coordinator.state.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            for member_id, consumer in group.durable.members.items():
                yield member_id, consumer.instance_id, group.timers_of(member_id).session
        elif isinstance(group, ClassicGroup):
            for member_id, member in group.members.items():
                yield member_id, member.instance_id, member.session

    def _extend_session(self, member_id: str, instance_id: str | None, until_ms: int) -> None:
        group = self._coordinator.state.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            timers = group.members_timers.get(member_id)
            if timers is not None:
                timers.last_seen_ms = until_ms
                self._coordinator.state.timers.arm(timers.session, until_ms + timers.session_timeout_ms)
        elif group is not None:
            self._coordinator.fast_heartbeat(self.group_id, group.generation, member_id, instance_id, timer_ms=until_ms)

    def _is_running(self) -> bool:
        return any(member.is_running for member in self._members)

    # Actions

    def _begin(self) -> None:
        """The evidence begins: what was replayed before brought the members there that it found."""
        self._events.clear()
        self._origins.clear()
        self.stops.start(self.now_ms)

    def _act(self, member: ClassicModelMember | ConsumerModelMember, index: int, action: Action) -> None:
        if self._lacks_reason(action.follows_ms):
            return
        is_removal = action.kind is ActionKind.REMOVAL
        if is_removal and self._behaviour.is_consumer_type:
            self._unaware.add(member.process.name)
            self.later(action.length_ms, lambda: self._make_aware(member))
        member.act(index, action)
        if is_removal and not self._behaviour.is_consumer_type:
            self.later(self._reaction().join_ms, member.notice)

    def _make_aware(self, member: ClassicModelMember | ConsumerModelMember) -> None:
        self._unaware.discard(member.process.name)
        member.notice()

    def _lacks_reason(self, follows_ms: int | None) -> bool:
        """Whether it is a consequence of a rebalance that has not begun."""
        return follows_ms is not None and not any(follows_ms - EARLIER_MS <= at_ms for at_ms in self._rebalanced_ms)

    def _change_topics(self, counts: Mapping[str, int]) -> None:
        """A member's next heartbeat makes the coordinator look at the topics."""
        if counts == {name: len(topic.leaders) for name, topic in self.topics.topics.items()}:
            return
        self.topics.set(counts)
        names = self.topic_names()
        for member in self._members:
            if isinstance(member, ConsumerModelMember):
                member.learn_topics(names)
        notifies = next((member for member in self._members if member.sends_heartbeats), None)
        if notifies is not None:
            notifies.notice()  # the recorded change is the one that a heartbeat brought

    def _rejoin_leader(self, index: int) -> None:
        if self._lacks_reason(self._behaviour.leader_rejoins[index].follows_ms):
            return
        group = self._coordinator.state.groups.get(self.group_id)
        leader = self._by_id.get(group.leader or "") if group is not None else None
        if leader is not None and leader.is_joining:
            # It did so after the rebalance that the replay has not finished yet.
            self.later(RETRY_MS, lambda: self._rejoin_leader(index))
        elif isinstance(leader, ClassicModelMember) and leader.is_running:
            self._leader_origin = index
            leader.rejoin("cached metadata has changed")
            self._leader_origin = None

    # The coordinator

    def _submit(self, command: Command) -> None:
        self._apply(self._coordinator.handle(command, now_ms=self.now_ms))

    def _apply(self, effects: GroupEffects) -> None:
        if effects.records:
            self._coordinator.replay_all(effects.records)
        for event in effects.events:
            self._take_event(event)
        for reply in effects.replies:
            receive = self._receivers.pop(reply.to, None)
            if receive is not None:
                self._at(self.now_ms, lambda receive=receive, result=reply.result: receive(result))  # type: ignore[misc]
        if any(event.kind in TRIGGERS for event in effects.events):
            self._notify()

    def _take_event(self, event: GroupEvent) -> None:
        member = self._by_id.get(event.member_id or "")
        if member is not None and event.kind in (*TRIGGERS, "static_replaced"):
            is_by_leader = self._leader_origin is not None
            self._origins[len(self._events)] = (
                Origin("", self._leader_origin or 0) if is_by_leader else Origin(member.process.name, member.origin)
            )
        elif event.kind == "epoch_bumped":
            self._origins[len(self._events)] = Origin("", self._topic_change_at(event.at_ms))
        if member is not None and event.trigger in REMOVALS:
            member.removed(event.member_id or "")
        if event.kind in TRIGGERS and not event.coalesced:
            self._rebalanced_ms.append(event.at_ms)
        self._events.append(event)

    def _topic_change_at(self, at_ms: int) -> int:
        """The index of the recorded rejoin for the same change of topics; one that no rejoin has where none was recorded."""
        rejoins = self._behaviour.leader_rejoins
        near = [(abs(each.at_ms - at_ms), index) for index, each in enumerate(rejoins) if each.cause is Cause.TOPIC_CHANGE]
        return min(near)[1] if near and min(near)[0] <= SAME_CHANGE_MS else -1 - len(self._events)

    def _notify(self) -> None:
        """Have each member send its next heartbeat: one after the other, the last one as late as in the recorded group.

        In a consumer group: within its heartbeat interval.
        """
        others = [member for member in self._members if member.sends_heartbeats and member.process.name not in self._unaware]
        for place, member in enumerate(others, 1):
            if self._behaviour.is_consumer_type:
                self.later(self._behaviour.heartbeat_interval_ms * (2 * place - 1) // (2 * len(others)), member.notice)
            else:
                self.later(self._reaction().join_ms * place // len(others), member.notice)

    # What was recorded

    def _reaction(self) -> Reaction:
        """The reaction of the recorded rebalance that began last, or of the first one."""
        reactions = self._behaviour.reactions
        at = bisect_right(reactions, self.now_ms, key=lambda each: each.at_ms) - 1
        return reactions[max(at, 0)] if reactions else DEFAULT_REACTION
