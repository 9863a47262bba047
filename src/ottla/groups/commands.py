"""The commands of a group coordinator, free of API versions: a difference between versions is a named field.

`reply_to` is opaque to the coordinator: it comes back in the `Reply`, at once or, for a parked request, later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ottla.core.errors import ErrorCode
from ottla.core.groups.effects import Effects
from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.groups.log.committed_offsets import TopicOffsets, partition_count

# Commands of the hot path are not frozen, since that makes their creation several times slower. They are not changed nevertheless.


@dataclass(slots=True, kw_only=True)
class JoinGroup:
    """JoinGroup (11). `new_member_id` is the id for a member without one: randomness comes from the API boundary."""

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
    """Do one step of an expiry pass. While `Coordinator.is_expiring`, the shell sends it again soon."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """The records of `effects` could not be appended: none of them is durable, and the replies were not sent."""

    effects: Effects
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishLoading:
    """Every record of this coordinator's partition has been replayed: start serving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """Another broker takes the partition: answer parked requests with NOT_COORDINATOR and serve nothing more."""


Request = (
    JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch | OffsetDelete | DescribeGroup | ListGroups | DeleteGroup
)
"""The commands that clients send and that get a reply."""

Notice = ForgetTopics | ExpireOffsets | EvictMember | ExpireMember | AppendFailed | FinishLoading | Resign
"""The commands that the broker itself sends, without a reply."""

Command = Request | Notice
