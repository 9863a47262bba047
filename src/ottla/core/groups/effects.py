"""What a coordinator answers to a command: records to append, replies to send once they are kept, events to publish.

`timers` only tells what this step armed, for traces and scenario files: the coordinator keeps its own timers
(`next_deadline_ms`, `fire_timers`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.core.errors import ErrorCode
from ottla.core.groups.on_demand import OnDemand
from ottla.core.groups.records import GroupRecord
from ottla.core.groups.timers import Timer
from ottla.core.model import GroupEvent

# What is made for each request of the hot path is not frozen: that would take several times as long to make. Nobody changes it.


@dataclass(slots=True, kw_only=True)
class JoinMember:
    """A member as its leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinResult:
    """Answer to JoinGroup; the defaults are Kafka's for an error. `protocol_name` None is written as "" before v7."""

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
    """Answer to SyncGroup: the member's own part of the plan."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class HeartbeatResult:
    """Answer to Heartbeat."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """One line of a LeaveGroup answer."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    """Answer to LeaveGroup; with a top-level error `members` is empty."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """Answer to OffsetCommit: one error code per partition, in the order of the command's offsets."""

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
    """Answer to OffsetFetch for one group."""

    error: ErrorCode
    topics: tuple[tuple[str, Sequence[FetchedOffset]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    """Answer to OffsetDelete: a group error, or one error code per partition in the command's order."""

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
    """Answer to DescribeGroups for one group."""

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One line of ListGroups; `group_type` is `classic` or `consumer`."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """Answer to ListGroups of one coordinator."""

    error: ErrorCode
    groups: Sequence[ListedGroup] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """Answer to DeleteGroups for one group."""

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
    """The answer for whoever sent the command with this `reply_to`."""

    to: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerSet:
    """A timer armed in this step: what it is for, and when it is due."""

    key: str
    at_ms: int


class ArmedTimers(OnDemand[TimerSet]):
    """Timers with the time that they were armed for; only traces and scenario files look."""

    __slots__ = ("_armed",)

    def __init__(self, armed: Sequence[tuple[Timer, int]]) -> None:
        self._armed = armed

    def __len__(self) -> int:
        return len(self._armed)

    def _make(self) -> tuple[TimerSet, ...]:
        return tuple(TimerSet(key=timer.key, at_ms=at_ms) for timer, at_ms in self._armed)


@dataclass(slots=True, kw_only=True)
class Effects:
    """Everything one step asks of the shell: append `records` in one batch, replay them, send `replies`, publish `events`.

    `records` and `timers` may be made only when they are looked at (OnDemand): what a commit stores is `CommittedOffsets`.
    `log_lines` are Kafka's own, so that people's greps work; the shell puts `Coordinator.log_prefix` before each.
    """

    records: Sequence[GroupRecord] = ()
    replies: tuple[Reply, ...] = ()
    events: tuple[GroupEvent, ...] = ()
    timers: Sequence[TimerSet] = ()
    log_lines: tuple[str, ...] = ()
