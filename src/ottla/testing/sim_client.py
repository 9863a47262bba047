"""A member of a group as a simulation needs it: joins, leads, owns partitions, beats, commits, freezes, dies and comes back.

It behaves like Kafka's own clients (eager, with a range plan when it leads), sees the world only through its network, and never
looks into the coordinator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetToCommit,
    Request,
    SyncGroup,
)
from ottla.core.groups.effects import CommitResult, HeartbeatResult, JoinResult, Result, SyncResult
from ottla.core.groups.subscription import parse_assignment, parse_subscribed_topics
from ottla.testing.sim_protocol import encode_assignment, encode_subscription, range_plan

GROUP_ID = "g"
RETRY_MS = 200
PATIENCE_MS = 15_000
"""How long it waits in JoinGroup and SyncGroup: more than any group's rebalance timeout here. A client without KIP-394 that
gives up sooner comes back as somebody else, and the group then waits for who it was: without end, if the times match."""

E = ErrorCode
BEGINS_ANEW = {E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION}
JOINS_AGAIN = {E.REBALANCE_IN_PROGRESS}
FATAL = {E.FENCED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED, E.INCONSISTENT_GROUP_PROTOCOL}
"""What a real client throws at its application; everything else it tries again."""


class Network(Protocol):
    """What a member sees of the world."""

    partitions: Mapping[str, int]

    def send(self, member: "SimMember", request: Callable[[int], Request], answered: Callable[[Result], None]) -> None:
        """Send what `request` makes of a `reply_to`; `answered` hears the answer, if one arrives."""

    def later(self, delay_ms: int, act: Callable[[], None], member: "SimMember | None" = None) -> None:
        """Let something happen after some time; to a frozen `member` it happens when it thaws."""

    def next_offset(self) -> int:
        """An offset larger than all before."""

    def next_member_id(self, name: str) -> str:
        """A member id that nobody had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a member is like."""

    name: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int
    old: bool
    """It knows neither KIP-394 nor KIP-814."""
    protocols: tuple[str, ...] = ("range",)


class SimMember:
    """One process. `phase` is "joining", "syncing", "owning" or "gone"."""

    def __init__(self, habits: Habits, network: Network, topics: tuple[str, ...]) -> None:
        self.habits = habits
        self.topics = topics
        self.phase = "joining"
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, tuple[int, ...]] = {}
        self.frozen_until_ms = 0
        self._network = network
        self._protocol: str | None = None
        self._beats = 0
        self._turn = 0
        """Counts what it does; whatever belongs to an earlier turn is too late."""

    @property
    def alive(self) -> bool:
        """It still takes part."""
        return self.phase != "gone"

    def join(self, *, anew: bool = False) -> None:
        """Send JoinGroup; `anew` gives up the member id. What it owned it owns no more (eager)."""
        if anew:
            self.member_id, self.generation = "", -1
        self.owned = {}
        self._enter("joining")
        metadata = encode_subscription(self.topics)
        member_id, habits = self.member_id, self.habits

        def request(reply_to: int) -> Request:
            # The broker's door makes the id: a request that arrives twice gets two.
            return JoinGroup(
                reply_to=reply_to,
                group_id=GROUP_ID,
                member_id=member_id,
                instance_id=habits.instance_id,
                client_id=habits.name,
                client_host="/127.0.0.1",
                session_timeout_ms=habits.session_timeout_ms,
                rebalance_timeout_ms=habits.rebalance_timeout_ms,
                protocol_type="consumer",
                protocols=tuple((name, metadata) for name in habits.protocols),
                reason=None,
                require_known_member_id=not habits.old,
                supports_skip_assignment=not habits.old,
                new_member_id=self._network.next_member_id(habits.instance_id or habits.name),
            )

        self._call(request, self._joined, PATIENCE_MS)

    def leave(self, reason: str | None = None) -> None:
        """Send LeaveGroup and be gone, whatever becomes of it."""
        leaving = LeavingMember(member_id=self.member_id, instance_id=self.habits.instance_id, reason=reason)
        self._enter("gone")
        if self.member_id:
            self._network.send(
                self,
                lambda reply_to: LeaveGroup(reply_to=reply_to, group_id=GROUP_ID, members=(leaving,)),
                lambda _: None,
            )

    def die(self) -> None:
        """Be gone without a word."""
        self._enter("gone")

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._turn += 1

    def _call(self, request: Callable[[int], Request], answered: Callable[[Result], None], timeout_ms: int) -> None:
        """Send; what arrives in time and in this turn counts, and silence means to join again."""
        self._turn += 1
        turn = self._turn

        def in_turn(result: Result) -> None:
            if self._turn == turn:
                self._turn += 1
                answered(result)

        def silence() -> None:
            if self._turn == turn:
                self.join()

        self._network.send(self, request, in_turn)
        self._network.later(timeout_ms, silence, self)

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._turn += 1
        turn = self._turn
        self._network.later(delay_ms, lambda: act() if self._turn == turn else None, self)

    def _recover(self, error: ErrorCode) -> None:
        if error in FATAL:
            self.die()
        elif error in BEGINS_ANEW:
            self.join(anew=True)
        elif error in JOINS_AGAIN:
            self.join()
        else:
            self._after(RETRY_MS, self.join)

    def _joined(self, result: Result) -> None:
        assert isinstance(result, JoinResult)
        if result.error is E.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self.join()
        elif result.error is E.NONE:
            self.member_id, self.generation, self._protocol = result.member_id, result.generation, result.protocol_name
            leads = result.leader == self.member_id and not result.skip_assignment
            self._sync(self._plan(result) if leads else ())
        else:
            self._recover(result.error)

    def _plan(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        members = {each.member_id: parse_subscribed_topics(each.metadata) for each in result.members}
        plan = range_plan(members, self._network.partitions)
        return tuple((member_id, encode_assignment(partitions)) for member_id, partitions in plan.items())

    def _sync(self, plan: tuple[tuple[str, bytes], ...]) -> None:
        self._enter("syncing")
        member_id, generation, protocol = self.member_id, self.generation, self._protocol

        def request(reply_to: int) -> Request:
            return SyncGroup(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=generation,
                member_id=member_id,
                instance_id=self.habits.instance_id,
                protocol_type="consumer",
                protocol_name=protocol,
                assignments=plan,
            )

        self._call(request, self._synced, PATIENCE_MS)

    def _synced(self, result: Result) -> None:
        assert isinstance(result, SyncResult)
        if result.error is not E.NONE:
            self._recover(result.error)
            return
        self.owned = dict(parse_assignment(result.assignment))
        self._enter("owning")
        self._after(self.habits.heartbeat_ms, self._beat)

    def _beat(self) -> None:
        def request(reply_to: int) -> Request:
            return Heartbeat(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=self.generation,
                member_id=self.member_id,
                instance_id=self.habits.instance_id,
            )

        self._call(request, self._beaten, self.habits.session_timeout_ms)

    def _beaten(self, result: Result) -> None:
        assert isinstance(result, HeartbeatResult)
        if result.error in (E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS):
            self._beats += 1
            if self.owned and self._beats % 2 == 0:
                self._commit()
            else:
                self._after(self.habits.heartbeat_ms, self._beat)
        else:
            self._recover(result.error)

    def _commit(self) -> None:
        offsets = tuple(
            OffsetToCommit(topic=topic, partition=partition, offset=self._network.next_offset(), leader_epoch=-1, metadata=None)
            for topic, partitions in self.owned.items()
            for partition in partitions
        )

        def request(reply_to: int) -> Request:
            return OffsetCommit(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=self.generation,
                member_id=self.member_id,
                instance_id=self.habits.instance_id,
                retention_ms=-1,
                knows_group_errors=True,
                offsets=offsets,
            )

        self._call(request, self._committed, self.habits.session_timeout_ms)

    def _committed(self, result: Result) -> None:
        assert isinstance(result, CommitResult)
        error = result.errors[0]
        if error in BEGINS_ANEW or error in FATAL or error in JOINS_AGAIN:
            self._recover(error)
        else:
            self._after(self.habits.heartbeat_ms, self._beat)
