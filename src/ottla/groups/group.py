"""A group of any type (Kafka: `Group`), the groups of one coordinator, and the context in which it handles a command.

What a group type adds is in its own package: `classic`, `consumer`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.coordinator.effects import Context
from ottla.coordinator.timers import Timer, Timers
from ottla.groups.commands import OffsetCommit, OffsetFetch, Result, TxnOffsetCommit
from ottla.groups.events import EventMember, GroupEvent
from ottla.groups.log.committed_offsets import TopicOffsets
from ottla.groups.log.records import GroupRecord
from ottla.groups.log.replayed_state import OffsetsByTopic, ReplayedState
from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.settings import GroupConfigs, GroupSettings
from ottla.groups.snapshots import GroupSnapshot, GroupSummary, MemberAssignment
from ottla.groups.topics import ClusterTopics, NoTopics, TopicHashes
from ottla.protocol.coordinator_records import GroupMetadataValue
from ottla.protocol.errors import ErrorCode

DEAD_STATE = "Dead"
"""The state of a group that is being removed, in every group type."""
UNKNOWN_MS = -1
"""The time of an event that an old record does not contain."""


class Group(ABC):
    """One group. `generation` is the epoch of a group whose type has epochs; `leader` is None in a group that elects none."""

    __slots__ = ("generation", "group_id", "leader", "protocol", "protocol_type", "replaces", "state_since_ms")

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.group_id = group_id
        self.replaces: Group | None = None
        """The group of another type that this one was converted from, until the records of that are stored."""
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None

    @property
    @abstractmethod
    def group_type(self) -> str:
        """The type as ListGroups names it: `classic` or `consumer`."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as Kafka names it on the wire."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members and is not being removed."""

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether the group is being removed; its offsets are no longer served."""

    @property
    @abstractmethod
    def delete_group_error(self) -> ErrorCode:
        """What DeleteGroups is answered; NONE allows it."""

    @property
    @abstractmethod
    def delete_offsets_error(self) -> ErrorCode:
        """What OffsetDelete is answered; NONE allows it for topics without a subscriber."""

    @property
    @abstractmethod
    def can_expire_offsets(self) -> bool:
        """Whether retention applies to the group's offsets in its present state."""

    @abstractmethod
    def check_commit(self, context: "CommandContext", command: OffsetCommit, topics: Iterable[TopicOffsets]) -> ErrorCode:
        """NONE if the commit of `topics`, what can be stored of the command's offsets, is accepted (Kafka: `validateOffsetCommit`).

        An accepted commit of a member of a classic group restarts its session.
        """

    @abstractmethod
    def check_transactional_commit(self, context: "CommandContext", command: TxnOffsetCommit) -> ErrorCode:
        """NONE if the commit within a transaction is accepted, in any state of the group (Kafka: `validateTransactionalOffsetCommit`)."""

    @abstractmethod
    def check_fetch(self, command: OffsetFetch) -> ErrorCode:
        """NONE if the offsets may be fetched (Kafka: `validateOffsetFetch`)."""

    @abstractmethod
    def tombstones(self) -> Iterable[GroupRecord]:
        """The records that delete the group, without its offsets."""

    @abstractmethod
    def fast_heartbeat(self, generation: int, member_id: str, instance_id: str | None, timer_ms: int, timers: Timers) -> ErrorCode | None:
        """Restart the session of a member and return the response's error code; None, with nothing changed, if it is more than that."""

    @abstractmethod
    def fast_consumer_heartbeat(
        self,
        state: "CoordinatorState",
        member_id: str,
        epoch: int,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        timer_ms: int,
    ) -> int | None:
        """Restart the session of a member of the consumer protocol that says nothing new and has its target; its heartbeat interval in ms.

        None, with nothing changed, if the heartbeat is more than that.
        """

    @abstractmethod
    def unload(self, context: "CommandContext") -> None:
        """Answer parked requests with NOT_COORDINATOR: another broker takes the group."""

    @abstractmethod
    def snapshot(self, *, metadata: GroupMetadataValue | None, offsets: OffsetsByTopic) -> GroupSnapshot:
        """The group as it is now; `metadata` is its record in the log."""

    @abstractmethod
    def summary(self, offset_commits: int) -> GroupSummary:
        """The group in numbers; `offset_commits` is how many offsets were committed."""

    @abstractmethod
    def assignments(self) -> tuple[MemberAssignment, ...] | None:
        """The assignments of all members; None unless the group is Stable."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes `topic`, or may, because its subscription is not known."""

    @abstractmethod
    def parked_requests(self) -> Iterable[int]:
        """The `reply_to` of every parked request."""

    @abstractmethod
    def timers(self) -> Iterable[Timer]:
        """Every timer that the group may have armed."""

    @property
    def empty_since_ms(self) -> int | None:
        """When the last member left: from then on `offsets.retention.minutes` counts (KIP-211).

        None where it counts from each commit: the group has members, or no protocol type, or a record without the time.
        """
        if self.protocol_type is None or not self.is_empty or self.state_since_ms == UNKNOWN_MS:
            return None
        return self.state_since_ms


@dataclass(slots=True)
class ExpiryPass:
    """A pass over all offsets in search of expired ones. `group_ids` are the groups not yet visited, the next one last."""

    group_ids: list[str]
    started_at_ms: int
    tombstones: int = 0


class CoordinatorState:
    """Everything that a coordinator holds. Only `replayed` is durable; the rest is lost at a restart."""

    __slots__ = (
        "commit_counts",
        "configs",
        "expiry",
        "groups",
        "offsets_committed",
        "pending_offsets",
        "replayed",
        "settings",
        "timers",
        "topic_hashes",
        "topics",
    )

    def __init__(self, settings: GroupSettings, topics: ClusterTopics | None = None, configs: GroupConfigs | None = None) -> None:
        self.settings = settings
        self.configs: GroupConfigs = settings if configs is None else configs
        self.topics: ClusterTopics = NoTopics() if topics is None else topics
        """The cluster's topics as they are now."""
        self.topic_hashes = TopicHashes()
        self.replayed = ReplayedState()
        self.pending_offsets = PendingOffsets()
        """Of transactions that have not ended; the log has them too."""
        self.groups: dict[str, Group] = {}
        self.timers = Timers()
        self.expiry: ExpiryPass | None = None
        """The pass in progress; None between two passes."""
        self.commit_counts: dict[str, int] = {}
        """Offsets committed since the coordinator started, by group; for metrics."""
        self.offsets_committed = 0

    def count_commits(self, group_id: str, count: int) -> None:
        """Count committed offsets when they are decided, as Kafka's `offset-commit-count` does."""
        self.commit_counts[group_id] = self.commit_counts.get(group_id, 0) + count
        self.offsets_committed += count

    def convert_group(self, group: Group) -> None:
        """Put a group in the place of the one of another type with its id. No timer fires before the records are stored, or have failed."""
        group.replaces = self.groups.get(group.group_id)
        self.groups[group.group_id] = group

    def complete_conversion(self, group: Group) -> None:
        """The records of a conversion are stored: the group from before is gone."""
        if group.replaces is not None:
            self._cancel_timers(group.replaces)
            group.replaces = None

    def undo_conversion(self, group: Group) -> bool:
        """The records could not be stored: the group from before is in its place again. Returns whether the group was a converted one."""
        if group.replaces is None:
            return False
        self._cancel_timers(group)
        self.groups[group.group_id] = group.replaces
        return True

    def _cancel_timers(self, group: Group) -> None:
        for timer in group.timers():
            self.timers.cancel(timer)

    def remove_group(self, group: Group) -> None:
        """Remove a group and cancel its timers."""
        self._cancel_timers(group)
        self.groups.pop(group.group_id, None)
        self.commit_counts.pop(group.group_id, None)


class CommandContext(Context[CoordinatorState, GroupRecord, Result, GroupEvent]):
    """Collects `GroupEffects`."""

    __slots__ = ()

    @property
    def settings(self) -> GroupSettings:
        """The operator's settings."""
        return self.state.settings

    def group_number(self, group: Group, name: str) -> int:
        """The value in force of a consumer group's setting."""
        return self.state.configs.group_number(group.group_id, name)

    def emit_change(
        self,
        group: Group,
        kind: str,
        state_from: str,
        state_to: str,
        *,
        members: Sequence[EventMember] = (),
        evidence: Mapping[str, int] | None = None,
        reason: str | None = None,
    ) -> None:
        """Publish a change of a group; `kind` is one of GroupEvent's."""
        self.events.append(
            GroupEvent(
                at_ms=self.now_ms,
                group=group.group_id,
                kind=kind,
                generation=group.generation,
                state_from=state_from,
                state_to=state_to,
                reason=reason,
                protocol=group.protocol,
                leader=group.leader,
                members=members,
                evidence=evidence or {},
                group_type=group.group_type,
            )
        )
