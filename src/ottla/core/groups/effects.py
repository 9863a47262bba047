"""The effects of a command or timer: records to append, then replies to send and events to publish.

`timers` are those that the command armed, for traces and scenario files: the coordinator runs its own timers
(`next_deadline_ms`, `fire_timers`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.core.errors import ErrorCode
from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.groups.log.records import GroupRecord
from ottla.core.groups.timers import Timer
from ottla.core.model import GroupEvent

# Results of the hot path are not frozen, since that makes their creation several times slower. They are not changed nevertheless.


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
    | LeaveResult
    | CommitResult
    | OffsetFetchResult
    | OffsetDeleteResult
    | DescribeResult
    | ListResult
    | DeleteResult
)


@dataclass(slots=True, kw_only=True)
class Reply:
    """The response to the command whose `reply_to` is `to`."""

    to: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerSet:
    """A timer that a command armed: its purpose, and when it is due."""

    key: str
    at_ms: int


class ArmedTimers(LazySequence[TimerSet]):
    """Timers with the times that they were armed for; only traces and scenario files read them."""

    __slots__ = ("_armed",)

    def __init__(self, armed: Sequence[tuple[Timer, int]]) -> None:
        self._armed = armed

    def __len__(self) -> int:
        return len(self._armed)

    def _make(self) -> tuple[TimerSet, ...]:
        return tuple(TimerSet(key=timer.key, at_ms=at_ms) for timer, at_ms in self._armed)


@dataclass(slots=True, kw_only=True)
class Effects:
    """What the shell does for one command: append `records` in one batch, replay them, send `replies`, publish `events`.

    `records` and `timers` may be LazySequences: the records of a commit are `CommittedOffsets`.
    `log_lines` are Kafka's own, as people search for them; the shell puts `Coordinator.log_prefix` before each.
    """

    records: Sequence[GroupRecord] = ()
    replies: tuple[Reply, ...] = ()
    events: tuple[GroupEvent, ...] = ()
    timers: Sequence[TimerSet] = ()
    log_lines: tuple[str, ...] = ()
