"""Values of a membership: a member's states and their transitions, settings, requests and responses; of both group protocols.

Transitions are a table (Kafka: `AbstractCoordinator.MemberState`). A request is also the key of its response: the machine takes a response
only for the request that it waits for. API versions do not occur here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode
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
    """SyncGroup was answered with an assignment; or, of the consumer protocol, all of it is taken over."""
    RECONCILING = "reconciling"
    """Of the consumer protocol: partitions are to be given up or taken over, or the coordinator is to be told of it."""

    @property
    def sends_heartbeats(self) -> bool:
        return self in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)


TRANSITIONS: Final = {
    MemberState.UNJOINED: frozenset({MemberState.PREPARING_REBALANCE, MemberState.RECONCILING}),
    MemberState.PREPARING_REBALANCE: frozenset({MemberState.COMPLETING_REBALANCE, MemberState.UNJOINED}),
    MemberState.COMPLETING_REBALANCE: frozenset({MemberState.STABLE, MemberState.UNJOINED}),
    MemberState.STABLE: frozenset({MemberState.PREPARING_REBALANCE, MemberState.RECONCILING, MemberState.UNJOINED}),
    MemberState.RECONCILING: frozenset({MemberState.STABLE, MemberState.UNJOINED}),
}
"""From each state to those that may follow it."""


JOIN_OVERHEAD_MS: Final = 5_000
"""How much longer a JoinGroup may take than the rebalance timeout (Kafka: `JOIN_GROUP_TIMEOUT_LAPSE`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A member's settings, by Kafka's names; times in milliseconds. `rack`: client.rack, "" for none.

    `is_consumer_protocol`: group.protocol=consumer (KIP-848). Session and heartbeat interval are the coordinator's then; `remote_assignor`:
    group.remote.assignor, None for the group's own.
    `group_id`: "" for a consumer that reads without a group. `rebalance_timeout_ms`: how long the coordinator waits for this member in a
    rebalance; None: for max.poll.interval.ms, within which members that rebalance in `poll` come back.
    """

    group_id: str
    instance_id: str | None = None
    rack: str = ""
    is_consumer_protocol: bool = False
    remote_assignor: str | None = None
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
    def session_property(self) -> str:
        """What sets the session timeout."""
        return "the group's consumer.session.timeout.ms" if self.is_consumer_protocol else "session.timeout.ms"

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


LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epochs of a member that leaves: for good, and until it returns within its session."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConsumerGroupHeartbeat:
    """The one request of the consumer protocol: joins with epoch 0, stays, acknowledges, or leaves.

    What is None, and a rebalance timeout of -1, is as the coordinator knows it. `owned`: partitions by topic id.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Mapping[str, Sequence[int]] | None = None

    @property
    def is_leave(self) -> bool:
        """Whether it leaves the group."""
        return self.member_epoch < 0


GroupRequest = FindCoordinator | JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerGroupHeartbeat


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
class ConsumerGroupHeartbeatResponse:
    """`message`: what the coordinator says of an error. `assignment`: partitions by topic id, None: as before."""

    error: ErrorCode
    message: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """An assignment that the application has not taken over yet, as its assignor named it.

    `renewed`: topics that were deleted and created again, so that none of their partitions is the one that the member owns.
    """

    generation: int
    assignor: str = ""
    partitions: Partitions = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()
