"""Values of a membership: states, settings, requests and responses, and what an error code means for it.

The states of a member of a classic group, and every transition between them (Kafka: `AbstractCoordinator.MemberState`).

Values of group membership: settings, requests to the coordinator, and its responses. Free of API versions.

A request is also the key of its response: the machine takes a response only for the request that it waits for.

How a member reacts to each error code of the group APIs, as tables (Kafka: the response handlers of `AbstractCoordinator`).

An error that a table does not name fails the call of the application, unless it is retriable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions


class MemberState(Enum):
    """What a member does. `sends_heartbeats`: whether the coordinator expects heartbeats of it."""

    UNJOINED = "unjoined"
    """Not in the group, or a rebalance failed. Next: JoinGroup."""
    PREPARING_REBALANCE = "preparing rebalance"
    """JoinGroup was sent. The coordinator answers when all members have joined, and expects no heartbeat until then."""
    COMPLETING_REBALANCE = "completing rebalance"
    """JoinGroup was answered, SyncGroup is sent."""
    STABLE = "stable"
    """SyncGroup was answered with an assignment."""

    @property
    def sends_heartbeats(self) -> bool:
        return self in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)


TRANSITIONS: Final = {
    MemberState.UNJOINED: frozenset({MemberState.PREPARING_REBALANCE}),
    MemberState.PREPARING_REBALANCE: frozenset({MemberState.COMPLETING_REBALANCE, MemberState.UNJOINED}),
    MemberState.COMPLETING_REBALANCE: frozenset({MemberState.STABLE, MemberState.UNJOINED}),
    MemberState.STABLE: frozenset({MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}),
}
"""From each state to those that may follow it."""


JOIN_OVERHEAD_MS: Final = 5_000
"""How much longer a JoinGroup may take than the rebalance timeout (Kafka: `JOIN_GROUP_TIMEOUT_LAPSE`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A member's settings, by Kafka's names; times in milliseconds. `rack`: client.rack, "" for none.

    `group_id`: "" for a consumer that reads without a group. `rebalance_timeout_ms`: how long the coordinator waits for this member in a
    rebalance; None: for max.poll.interval.ms, within which members that rebalance in `poll` come back.
    """

    group_id: str
    instance_id: str | None = None
    rack: str = ""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: tuple[int, int] = (100, 1_000)

    @property
    def longest_rebalance_ms(self) -> int:
        """The rebalance timeout."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    @property
    def join_timeout_ms(self) -> int:
        """The time of a JoinGroup: the coordinator may hold it until the rebalance timeouts of all members are over."""
        return max(self.request_timeout_ms, self.max_poll_interval_ms + JOIN_OVERHEAD_MS)


@dataclass(frozen=True, slots=True, eq=False)
class FindCoordinator:
    """Ask any broker for the group's coordinator."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinGroup:
    """Join or rejoin. `protocols`: name and metadata of each assignor, the preferred one first; `reason` is for the broker's log."""

    group_id: str
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyncGroup:
    """Fetch this member's assignment; the leader's request has the assignments of all members."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocol_name: str
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heartbeat:
    """Keep the session alive, and ask whether a rebalance has begun."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveGroup:
    """Leave at once, instead of when the session expires."""

    group_id: str
    member_id: str
    instance_id: str | None
    reason: str


GroupRequest = FindCoordinator | JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class JoinedMember(NamedTuple):
    """A member as the leader sees it; `metadata` is its subscription for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    """`members` are there for the leader alone; `skip_assignment`: a static leader that returned has none to make (KIP-814)."""

    error: ErrorCode
    generation: int = NO_GENERATION
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """`assignment`: the bytes that the leader made for this member."""

    error: ErrorCode
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """An assignment that the application has not taken over yet, as its assignor named it."""

    generation: int
    assignor: str
    partitions: Partitions = field(default_factory=dict)


class Reaction(Enum):
    """What a member does after an error."""

    RETRY_LATER = "retry after retry.backoff.ms"
    REJOIN = "join again"
    FORGET_GENERATION = "forget the generation, keep the member id, and join again"
    FORGET_MEMBER = "forget generation and member id, and join again"
    TAKE_MEMBER_ID = "join again with the member id of the response"
    FIND_COORDINATOR = "find the coordinator again"
    FAIL = "raise the error in the application's next call"
    IGNORE = "count the request as failed, and send the next one after a back-off"


_COORDINATOR_GONE: Final[dict[E, Reaction]] = {
    E.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    E.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
}
RETRIABLE: Final = frozenset({E.COORDINATOR_LOAD_IN_PROGRESS, E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR})
"""Errors after which the same request may succeed a little later."""

JOIN: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    E.MEMBER_ID_REQUIRED: Reaction.TAKE_MEMBER_ID,
    E.REBALANCE_IN_PROGRESS: Reaction.RETRY_LATER,
}
SYNC: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
}
HEARTBEAT: Final[Mapping[E, Reaction]] = _COORDINATOR_GONE | {
    E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    E.FENCED_INSTANCE_ID: Reaction.FAIL,
    E.GROUP_AUTHORIZATION_FAILED: Reaction.FAIL,
}


def reaction(table: Mapping[E, Reaction], error: E) -> Reaction:
    """The reaction to an error of a request whose errors `table` names."""
    if error in table:
        return table[error]
    if table is HEARTBEAT:
        return Reaction.IGNORE
    return Reaction.RETRY_LATER if error in RETRIABLE else Reaction.FAIL
