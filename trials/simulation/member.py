"""A simulated member of a group: it joins, leads, owns partitions, sends heartbeats, commits, freezes, crashes and restarts.

It behaves like Kafka's clients (eager, with the range assignor) and uses only its network, never the coordinator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.groups.commands import (
    CommitResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetToCommit,
    Request,
    Result,
    SyncGroup,
    SyncResult,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscribed_topics
from tests.support.kit.consumer_protocol import assign_range, encode_assignment, encode_subscription

GROUP_ID = "g"
RETRY_MS = 200
REQUEST_TIMEOUT_MS = 15_000
"""Request timeout of JoinGroup and SyncGroup, longer than any rebalance timeout here. A client without KIP-394 that times out earlier
joins again as a new member while the group waits for its old member id: without end, if the times match."""

E = ErrorCode
REJOIN_WITHOUT_ID = {E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION}
REJOIN = {E.REBALANCE_IN_PROGRESS}
FATAL = {E.FENCED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED, E.INCONSISTENT_GROUP_PROTOCOL}
"""Errors that a real client raises in its application; it retries after all others."""


class Process(Protocol):
    """A process of a simulation: a scripted member, or one that runs a client's own code."""

    config: "MemberConfig"
    topics: tuple[str, ...]
    owned: dict[str, tuple[int, ...]]
    frozen_until_ms: int
    kept_generation: int
    """The generation to which it returned as a static leader and made no assignments (KIP-814); -1 for none."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""

    @property
    def phase(self) -> str:
        """Its state: "joining", "syncing", "owning" or "gone"."""

    @property
    def generation(self) -> int:
        """The generation that it knows."""

    def join(self) -> None:
        """Join the group, with the topics of the moment."""

    def leave(self, reason: str | None = None) -> None:
        """Leave the group and end."""

    def crash(self) -> None:
        """End without LeaveGroup."""


class Network(Protocol):
    """The network of a member, and its clock."""

    partitions: Mapping[str, int]

    @property
    def now_ms(self) -> int:
        """The virtual time."""

    def random(self) -> float:
        """A number from 0 to 1."""

    def send(self, member: Process, request: Callable[[int], Request], on_response: Callable[[Result], None]) -> None:
        """Send the request that `request` creates for a `reply_to`; `on_response` gets the response, if one arrives."""

    def later(self, delay_ms: int, act: Callable[[], None], member: Process | None = None) -> None:
        """Call `act` after `delay_ms`; if `member` is frozen then, when it continues."""

    def next_offset(self) -> int:
        """An offset larger than all earlier ones."""

    def next_member_id(self, name: str) -> str:
        """A new member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """The configuration of a member."""

    name: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int
    is_old_client: bool
    """Without KIP-394 and KIP-814."""
    protocols: tuple[str, ...] = ("range",)


class SimulatedMember:
    """One process. `phase` is "joining", "syncing", "owning" or "gone"."""

    def __init__(self, config: MemberConfig, network: Network, topics: tuple[str, ...]) -> None:
        self.config = config
        self.topics = topics
        self.phase: str = "joining"
        self.member_id = ""
        self.generation: int = -1
        self.owned: dict[str, tuple[int, ...]] = {}
        self.frozen_until_ms = 0
        self.kept_generation = -1
        self._network = network
        self._protocol: str | None = None
        self._heartbeats = 0
        self._action = 0
        """The number of its present action; responses and timers of earlier actions are ignored."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.phase != "gone"

    def join(self, *, without_id: bool = False) -> None:
        """Send JoinGroup, with `without_id` after dropping the member id. It revokes all partitions (eager)."""
        if without_id:
            self.member_id, self.generation = "", -1
        self.owned = {}
        self._enter("joining")
        metadata = encode_subscription(self.topics)
        member_id, config = self.member_id, self.config

        def request(reply_to: int) -> Request:
            # The broker creates the id at its API boundary: a request that arrives twice gets two.
            return JoinGroup(
                reply_to=reply_to,
                group_id=GROUP_ID,
                member_id=member_id,
                instance_id=config.instance_id,
                client_id=config.name,
                client_host="/127.0.0.1",
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.rebalance_timeout_ms,
                protocol_type="consumer",
                protocols=tuple((name, metadata) for name in config.protocols),
                reason=None,
                require_known_member_id=not config.is_old_client,
                supports_skip_assignment=not config.is_old_client,
                new_member_id=self._network.next_member_id(config.instance_id or config.name),
            )

        self._call(request, self._on_join, REQUEST_TIMEOUT_MS)

    def leave(self, reason: str | None = None) -> None:
        """Send LeaveGroup and end, whatever the response."""
        leaving = LeavingMember(member_id=self.member_id, instance_id=self.config.instance_id, reason=reason)
        self._enter("gone")
        if self.member_id:
            self._network.send(
                self,
                lambda reply_to: LeaveGroup(reply_to=reply_to, group_id=GROUP_ID, members=(leaving,)),
                lambda _: None,
            )

    def crash(self) -> None:
        """End without LeaveGroup."""
        self._enter("gone")

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._action += 1

    def _call(self, request: Callable[[int], Request], on_response: Callable[[Result], None], timeout_ms: int) -> None:
        """Send a request; a response during this action counts, and after `timeout_ms` the member joins again."""
        self._action += 1
        action = self._action

        def on_time(result: Result) -> None:
            if self._action == action:
                self._action += 1
                on_response(result)

        def timed_out() -> None:
            if self._action == action:
                self.join()

        self._network.send(self, request, on_time)
        self._network.later(timeout_ms, timed_out, self)

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._action += 1
        action = self._action
        self._network.later(delay_ms, lambda: act() if self._action == action else None, self)

    def _recover(self, error: ErrorCode) -> None:
        if error in FATAL:
            self.crash()
        elif error in REJOIN_WITHOUT_ID:
            self.join(without_id=True)
        elif error in REJOIN:
            self.join()
        else:
            self._after(RETRY_MS, self.join)

    def _on_join(self, result: Result) -> None:
        assert isinstance(result, JoinResult)
        if result.error is E.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self.join()
        elif result.error is E.NONE:
            self.member_id, self.generation, self._protocol = result.member_id, result.generation, result.protocol_name
            leads = result.leader == self.member_id and not result.skip_assignment
            self._sync(self._assign(result) if leads else ())
        else:
            self._recover(result.error)

    def _assign(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        members = {each.member_id: parse_subscribed_topics(each.metadata) for each in result.members}
        assignments = assign_range(members, self._network.partitions)
        return tuple((member_id, encode_assignment(partitions)) for member_id, partitions in assignments.items())

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        self._enter("syncing")
        member_id, generation, protocol = self.member_id, self.generation, self._protocol

        def request(reply_to: int) -> Request:
            return SyncGroup(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=generation,
                member_id=member_id,
                instance_id=self.config.instance_id,
                protocol_type="consumer",
                protocol_name=protocol,
                assignments=assignments,
            )

        self._call(request, self._on_sync, REQUEST_TIMEOUT_MS)

    def _on_sync(self, result: Result) -> None:
        assert isinstance(result, SyncResult)
        if result.error is not E.NONE:
            self._recover(result.error)
            return
        self.owned = dict(parse_assignment(result.assignment))
        self._enter("owning")
        self._after(self.config.heartbeat_ms, self._send_heartbeat)

    def _send_heartbeat(self) -> None:
        def request(reply_to: int) -> Request:
            return Heartbeat(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=self.generation,
                member_id=self.member_id,
                instance_id=self.config.instance_id,
            )

        self._call(request, self._on_heartbeat, self.config.session_timeout_ms)

    def _on_heartbeat(self, result: Result) -> None:
        assert isinstance(result, HeartbeatResult)
        if result.error in (E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS):
            self._heartbeats += 1
            if self.owned and self._heartbeats % 2 == 0:
                self._commit()
            else:
                self._after(self.config.heartbeat_ms, self._send_heartbeat)
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
                instance_id=self.config.instance_id,
                retention_ms=-1,
                knows_group_errors=True,
                offsets=offsets,
            )

        self._call(request, self._on_commit, self.config.session_timeout_ms)

    def _on_commit(self, result: Result) -> None:
        assert isinstance(result, CommitResult)
        error = result.errors[0]
        if error in REJOIN_WITHOUT_ID or error in FATAL or error in REJOIN:
            self._recover(error)
        else:
            self._after(self.config.heartbeat_ms, self._send_heartbeat)
