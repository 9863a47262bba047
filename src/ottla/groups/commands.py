"""The commands of a group coordinator and their results, free of API versions: a difference between versions is a named field.

`reply_to` is opaque to the coordinator: it comes back in the `Reply`, at once or, for a parked request, later.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ottla.coordinator.coordinator import CoordinatorStatus, LifecycleCommand
from ottla.coordinator.effects import Effects, LazySequence, Producer
from ottla.groups.events import GroupEvent
from ottla.groups.log.committed_offsets import TopicOffsets, partition_count
from ottla.groups.log.records import GroupRecord
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode

# Commands and results of the hot path are not frozen, since that makes their creation several times slower. They are not changed.


@dataclass(slots=True, kw_only=True)
class JoinGroup:
    """JoinGroup (11). `new_member_id` is the id for a member without one: randomness comes from the API boundary.

    In a consumer group the id is `new_uuid`, and `may_describe` is as in ConsumerGroupHeartbeat.
    """

    reply_to: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str | None
    require_known_member_id: bool
    """KIP-394 (v4+): a dynamic member without an id gets one and must join again with it."""
    supports_skip_assignment: bool
    """KIP-814 (v9+): the response can tell a returning static leader to skip the assignment."""
    new_member_id: str
    new_uuid: str = ""
    may_describe: Callable[[str], bool] | None = None
    client_port: int = 0
    """The port that the connection comes from; 0: none. Events have it, so that a process that returns is known by its connection."""


@dataclass(slots=True, kw_only=True)
class SyncGroup:
    """SyncGroup (14). `protocol_type`/`protocol_name` are None where the version does not carry them (v<5)."""

    reply_to: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat (12)."""

    reply_to: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """ConsumerGroupHeartbeat (68). `topics` and `regex` None: unchanged; `owned` None: the member does not say what it owns.

    `may_describe` says which topics a regular expression may match; None: all. `new_member_id` is "" where a member must have an id (v1+).
    """

    reply_to: int
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: frozenset[str] | None
    regex: str | None
    assignor: str | None
    owned: Mapping[bytes, Collection[int]] | None
    client_id: str
    client_host: str
    client_port: int = 0
    new_member_id: str = ""
    needs_member_id: bool = True
    """v1+: the client makes the id; before, the coordinator did."""
    may_describe: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribe:
    """ConsumerGroupDescribe (69), one group."""

    reply_to: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """One member of a LeaveGroup batch; an empty `member_id` with an `instance_id` is an admin's removal."""

    member_id: str
    instance_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """LeaveGroup (13): a batch (v3+) or a batch of one (v0-2)."""

    reply_to: int
    group_id: str
    members: tuple[LeavingMember, ...]
    client_port: int = 0


@dataclass(slots=True, kw_only=True)
class OffsetToCommit:
    """One partition of an OffsetCommit. `topic_id` is the topic's id (16 bytes, zeros when unknown): value version 4 keeps it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    topic_id: bytes = bytes(16)


class OffsetsToCommit(LazySequence[OffsetToCommit]):
    """The partitions of an OffsetCommit in columns (TopicOffsets), as they are decoded; equal to a tuple of OffsetToCommit."""

    __slots__ = ("_count", "topics")

    def __init__(self, topics: tuple[TopicOffsets, ...]) -> None:
        self.topics = topics
        self._count = partition_count(topics)

    @classmethod
    def of(cls, offsets: Iterable[OffsetToCommit]) -> "OffsetsToCommit":
        """The same partitions in columns; consecutive ones of one topic share a TopicOffsets."""
        if isinstance(offsets, OffsetsToCommit):
            return offsets
        topics = []
        for (topic, topic_id), group in groupby(offsets, lambda each: (each.topic, each.topic_id)):
            run = list(group)
            metadata = [each.metadata or "" for each in run]
            columns = [each.partition for each in run], [each.offset for each in run], [each.leader_epoch for each in run]
            topics.append(TopicOffsets(topic, topic_id, *columns, metadata if any(metadata) else None))
        return cls(tuple(topics))

    def __len__(self) -> int:
        return self._count

    def _make(self) -> tuple[OffsetToCommit, ...]:
        return tuple(
            OffsetToCommit(
                topic=topic.topic, partition=partition, offset=offset, leader_epoch=epoch, metadata=text, topic_id=topic.topic_id
            )
            for topic in self.topics
            for partition, offset, epoch, text in zip(
                topic.partitions, topic.offsets, topic.leader_epochs, topic.metadata or [""] * len(topic.partitions), strict=True
            )
        )


@dataclass(slots=True, kw_only=True)
class OffsetCommit:
    """OffsetCommit (8). The API handler has removed unknown partitions and answers them itself."""

    reply_to: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    """-1: the broker's setting; otherwise an explicit expiry (v2-4 only)."""
    knows_group_errors: bool
    """v9+: an unknown group is GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION."""
    offsets: Sequence[OffsetToCommit]


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommit:
    """TxnOffsetCommit (28): offsets that are committed with a producer's transaction. Its coordinator has been asked.

    `generation` -1 and `member_id` "" where the producer does not say who consumes (before v3).
    """

    reply_to: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    producer: Producer
    offsets: Sequence[OffsetToCommit]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    """OffsetFetch (9), one group. `topics` None requests every committed offset.

    `topic_ids` (v10+) are the requested topic ids by name: an offset of an earlier topic with the name is not returned.
    """

    reply_to: int
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    require_stable: bool
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    member_id: str | None = None
    member_epoch: int = -1
    """v9+: who asks, if it is a member of a consumer group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    """OffsetDelete (47)."""

    reply_to: int
    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """DescribeGroups (15), one group. `unknown_is_error` (v6+): an unknown group answers GROUP_ID_NOT_FOUND instead of state Dead."""

    reply_to: int
    group_id: str
    unknown_is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """ListGroups (16). Empty filters match everything; both compare without case."""

    reply_to: int
    states: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """DeleteGroups (42), one group."""

    reply_to: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """Topics were deleted: delete their offsets."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets:
    """Do one step of an expiry pass. While a pass is in progress, the next one follows soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictMember:
    """Remove a member, as LeaveGroup of an administrator does; no request says so, the process that runs the broker does."""

    group_id: str
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireMember:
    """End a member's session now, as if its timeout were over. A member with a parked request stays, as when its timeout is over."""

    group_id: str
    member_id: str


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroup
    | ListGroups
    | DeleteGroup
)
"""The commands that clients send and that get a reply."""

Notice = ForgetTopics | ExpireOffsets | EvictMember | ExpireMember
"""The commands that the broker itself sends, without a reply."""

Command = Request | Notice | LifecycleCommand


# Results


@dataclass(slots=True, kw_only=True)
class JoinMember:
    """A member in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinResult:
    """Response to JoinGroup; the defaults are Kafka's for an error. `protocol_name` None is written as "" before v7."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinMember] = ()


@dataclass(slots=True, kw_only=True)
class SyncResult:
    """Response to SyncGroup: the member's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class HeartbeatResult:
    """Response to Heartbeat."""

    error: ErrorCode


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResult:
    """Response to ConsumerGroupHeartbeat. `assignment` None: the member keeps what it has."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[bytes, Collection[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """A member as ConsumerGroupDescribe shows it; partitions by topic id."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    assignment: Mapping[bytes, Collection[int]]
    target: Mapping[bytes, Collection[int]]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResult:
    """Response to ConsumerGroupDescribe for one group; `topic_names` are those of the ids in it, as far as the topics exist."""

    error: ErrorCode
    group_id: str
    message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[ConsumerGroupMember] = ()
    topic_names: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """One member of a LeaveGroup response."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    """Response to LeaveGroup; with a top-level error `members` is empty."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """Response to OffsetCommit: one error code per partition, in the order of the command's offsets."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """One committed offset; offset and leader epoch are -1 where there is none."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResult:
    """Response to OffsetFetch for one group."""

    error: ErrorCode
    topics: tuple[tuple[str, Sequence[FetchedOffset]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    """Response to OffsetDelete: a group error, or one error code per partition in the command's order."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member as DescribeGroups shows it; the metadata is empty unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeResult:
    """Response to DescribeGroups for one group."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group of ListGroups; `group_type` is `classic` or `consumer`."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """Response to ListGroups of one coordinator."""

    error: ErrorCode
    groups: Sequence[ListedGroup] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """Response to DeleteGroups for one group."""

    error: ErrorCode


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | ConsumerGroupHeartbeatResult
    | ConsumerGroupDescribeResult
    | LeaveResult
    | CommitResult
    | OffsetFetchResult
    | OffsetDeleteResult
    | DescribeResult
    | ListResult
    | DeleteResult
)

GroupEffects = Effects[GroupRecord, Result, GroupEvent]
"""The effects of a command to a group coordinator: the records of a commit are `CommittedOffsets`."""


# Checks that come before any group is looked up. Order, as in Kafka's `GroupCoordinatorService`: group id, session timeout, loading, not
# the coordinator.

NEEDS_GROUP_ID = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete, ConsumerGroupDescribe)
"""The other requests accept the empty group id, under which very old clients commit."""

WHILE_LOADING = {
    # The member joins again at this broker, without looking for another coordinator.
    SyncGroup: ErrorCode.REBALANCE_IN_PROGRESS,
    # Sessions restart when loading ends, so the member need not react.
    Heartbeat: ErrorCode.NONE,
}


def refusal(command: Request, status: CoordinatorStatus, settings: GroupSettings) -> Result | None:
    """The response that does not depend on the group; None when the group must be looked up."""
    if isinstance(command, NEEDS_GROUP_ID) and not command.group_id:
        return error_result(command, ErrorCode.INVALID_GROUP_ID)
    if isinstance(command, ConsumerGroupHeartbeat):
        problem = heartbeat_problem(command, settings)
        if problem is not None:
            return ConsumerGroupHeartbeatResult(error=problem[0], message=problem[1])
    if isinstance(command, JoinGroup) and not settings.allows_session_timeout(command.session_timeout_ms):
        return error_result(command, ErrorCode.INVALID_SESSION_TIMEOUT)
    if status is CoordinatorStatus.LOADING:
        return error_result(command, WHILE_LOADING.get(type(command), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    if status is CoordinatorStatus.RESIGNED:
        return error_result(command, ErrorCode.NOT_COORDINATOR)
    return None


def heartbeat_problem(command: ConsumerGroupHeartbeat, settings: GroupSettings) -> tuple[ErrorCode, str] | None:
    """What is wrong with the request itself, in Kafka's order and words; None if nothing is."""
    epoch, is_joining = command.member_epoch, command.member_epoch == 0
    invalid = ErrorCode.INVALID_REQUEST
    if (command.needs_member_id or epoch > 0 or epoch == -1) and not command.member_id.strip():
        return invalid, "MemberId can't be empty."
    for name, text in (("GroupId", command.group_id), ("InstanceId", command.instance_id), ("RackId", command.rack_id)):
        if text is not None and not text.strip():
            return invalid, f"{name} can't be empty."
    if is_joining and command.rebalance_timeout_ms == -1:
        return invalid, "RebalanceTimeoutMs must be provided in first request."
    if is_joining and (command.owned is None or command.owned):
        return invalid, "TopicPartitions must be empty when (re-)joining."
    if is_joining and command.topics is None and command.regex is None:
        return invalid, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    if epoch == -2 and command.instance_id is None:
        return invalid, "InstanceId can't be null."
    if epoch < -2:
        return invalid, "MemberEpoch is invalid."
    if command.assignor is not None and command.assignor not in settings.consumer_assignors:
        supported = ", ".join(sorted(settings.consumer_assignors))
        return (
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.assignor} is not supported. Supported assignors: {supported}.",
        )
    return None


def error_result(command: Request, error: ErrorCode) -> Result:
    """The request's response with `error`."""
    match command:
        case JoinGroup():
            return JoinResult(error=error, member_id=command.member_id)
        case SyncGroup():
            return SyncResult(error=error)
        case Heartbeat():
            return HeartbeatResult(error=error)
        case LeaveGroup():
            return LeaveResult(error=error)
        case ConsumerGroupHeartbeat():
            return ConsumerGroupHeartbeatResult(error=error)
        case ConsumerGroupDescribe():
            return ConsumerGroupDescribeResult(error=error, group_id=command.group_id)
        case OffsetCommit() | TxnOffsetCommit():
            return CommitResult(errors=(error,) * len(command.offsets))
        case OffsetFetch():
            return OffsetFetchResult(error=error)
        case OffsetDelete():
            return OffsetDeleteResult(error=error)
        case DescribeGroup():
            return DescribeResult(error=error, group_id=command.group_id)
        case ListGroups():
            return ListResult(error=error)
        case DeleteGroup():
            return DeleteResult(error=error)
