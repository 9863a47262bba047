"""A consumer group: its durable state and what is lost at a restart, namely the timers, and which version of the topics it has seen.

A new group has no records yet; with its first ones it gets the durable state to which they replay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.coordinator.timers import Timer, Timers
from ottla.groups.commands import OffsetCommit, OffsetFetch, OffsetsToCommit, TxnOffsetCommit
from ottla.groups.consumer.group_state import CURRENT, EPOCH, MEMBER, PARTITION_METADATA, REGEX, TARGET, TARGET_EPOCH, ConsumerGroupState
from ottla.groups.consumer.member import NO_EPOCH, Assigned, ConsumerMember, Partitions, ReconciliationState
from ottla.groups.consumer.subscribers import Subscribers
from ottla.groups.events import EventMember, EventMembers, TriggerCode
from ottla.groups.group import CommandContext, CoordinatorState, Group
from ottla.groups.log.committed_offsets import TopicOffsets
from ottla.groups.log.records import ConsumerGroupRecord
from ottla.groups.log.replayed_state import OffsetsByTopic
from ottla.groups.settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from ottla.groups.snapshots import GroupSnapshot, GroupSummary, MemberAssignment, MemberSnapshot
from ottla.protocol.coordinator_records import GroupMetadataValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_codec import uuid_text
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE

CONSUMER: Final = "consumer"
CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""All states that Kafka has for consumer groups; none is ever Dead."""
CONSUMER_SESSION: Final = "consumer-session"
"""The timer of a member: it is fenced."""
REVOCATION: Final = "revocation"
"""The timer of a member that must give up partitions: it is fenced."""
CLASSIC_JOIN: Final = "classic-join"
"""The timer of a member of the classic protocol that must join again: it is fenced."""
CLASSIC_SYNC: Final = "classic-sync"
"""The timer of a member of the classic protocol that has joined and must send SyncGroup: it is fenced."""
RESOLUTION: Final = "resolution"
"""The timer of a group's regular expressions: their topics are looked up."""


@dataclass(slots=True)
class ConsumerTimers:
    """The timers of one member. `revocation_epoch`: its epoch when the second was armed.

    `join` and `sync` are of members of the classic protocol alone. `revoking_since_ms`: when it was asked to give up partitions that it
    has not given up yet; `since_regex`: its join or change that will increase the epoch when its regular expression is looked up.
    """

    session: Timer
    revocation: Timer
    join: Timer | None = None
    sync: Timer | None = None
    session_timeout_ms: int = 0
    revocation_epoch: int = 0
    revoking_since_ms: int | None = None
    since_regex: TriggerCode | None = None
    last_seen_ms: int = 0


class ConsumerGroup(Group):
    """One consumer group."""

    __slots__ = (
        "durable",
        "members_timers",
        "resolution",
        "resolution_timer",
        "resolved_version",
        "seen_epoch",
        "seen_version",
        "subscribers",
        "topics",
    )

    def __init__(self, group_id: str, state: CoordinatorState, *, now_ms: int) -> None:
        super().__init__(group_id, now_ms=now_ms)
        self.protocol_type = CONSUMER_PROTOCOL_TYPE
        self.topics = state.topics
        self.durable = ConsumerGroupState()
        self.generation = self.durable.epoch
        self.members_timers: dict[str, ConsumerTimers] = {}
        self.subscribers = Subscribers()
        self.resolution: Any = None
        """The lookup of topics of regular expressions that is under way."""
        self.resolution_timer = Timer(RESOLUTION, group_id)
        self.seen_version: int | None = None
        """The version of the cluster's topics for which the hash of the metadata was compared; None after loading."""
        self.seen_epoch = 0
        """The group epoch that came of that; greater than the group's if it was not stored, so that the comparison does not count."""
        self.resolved_version: int | None = None
        """The version as of which regular expressions were resolved; None after loading."""

    def attach(self, durable: ConsumerGroupState) -> None:
        """Take over the state to which its records were replayed."""
        self.durable = durable
        self.generation = durable.epoch

    @property
    def group_type(self) -> str:
        return CONSUMER

    @property
    def state_name(self) -> str:
        durable = self.durable
        if not durable.members:
            return "Empty"
        if durable.epoch > durable.assignment_epoch:
            return "Assigning"
        return "Stable" if durable.is_reconciled else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.durable.members

    @property
    def is_dead(self) -> bool:
        return False

    @property
    def delete_group_error(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.NONE

    @property
    def can_expire_offsets(self) -> bool:
        return True

    @property
    def empty_since_ms(self) -> int | None:
        # As in Kafka, retention counts from each commit, also in an empty group.
        return None

    def tombstones(self) -> list[ConsumerGroupRecord]:
        durable = self.durable
        return [
            *(self.record(CURRENT, member_id, None) for member_id in durable.members),
            *(self.record(TARGET, member_id, None) for member_id in dict.fromkeys((*durable.members, *durable.targets))),
            self.record(TARGET_EPOCH, "", None),
            *(self.record(MEMBER, member_id, None) for member_id in durable.members),
            *(self.record(REGEX, regex, None) for regex in durable.regexes),
            self.record(PARTITION_METADATA, "", None),
            self.record(EPOCH, "", None),
        ]

    def record(self, record_type: int, name: str, value: Any) -> ConsumerGroupRecord:
        """A record of this group."""
        return ConsumerGroupRecord(record_type=record_type, group_id=self.group_id, name=name, value=value)

    def assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The name with most votes, the default without votes."""
        votes: dict[str, int] = {}
        for member in members:
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else default

    def is_subscribed_to(self, topic: str) -> bool:
        subscriptions = self.durable.subscriptions
        return topic in subscriptions.names or topic in subscriptions.topics(self.durable.regexes)

    def check_commit(self, context: CommandContext, command: OffsetCommit, topics: Iterable[TopicOffsets]) -> ErrorCode:
        members, epoch = self.durable.members, command.generation
        if epoch < 0 and not members:
            return ErrorCode.NONE
        member = members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and not command.knows_group_errors:
            return ErrorCode.UNSUPPORTED_VERSION
        if _has_epoch_of(member, epoch, topics):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def check_transactional_commit(self, context: CommandContext, command: TxnOffsetCommit) -> ErrorCode:
        members, epoch = self.durable.members, command.generation
        if (epoch < 0 and not members) or (epoch == NO_EPOCH and not command.member_id and command.instance_id is None):
            return ErrorCode.NONE
        member = members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        topics = OffsetsToCommit.of(command.offsets).topics
        return ErrorCode.NONE if _has_epoch_of(member, epoch, topics) else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, command: OffsetFetch) -> ErrorCode:
        if command.member_id is None and command.member_epoch < 0:
            return ErrorCode.NONE
        member = self.durable.members.get(command.member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if command.member_epoch == member.member_epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def fast_heartbeat(self, generation: int, member_id: str, instance_id: str | None, timer_ms: int, timers: Timers) -> ErrorCode | None:
        durable = self.durable
        member, of_member = durable.members.get(member_id), self.members_timers.get(member_id)
        if (
            member is None
            or of_member is None
            or member.classic is None
            or member.state is not ReconciliationState.STABLE
            or not generation == member.member_epoch == durable.assignment_epoch
            or (instance_id is not None and durable.static_members.get(instance_id) != member_id)
        ):
            return None
        of_member.session_timeout_ms = member.classic.session_timeout_ms
        of_member.last_seen_ms = timer_ms
        timers.arm(of_member.session, timer_ms + of_member.session_timeout_ms)
        return ErrorCode.NONE

    def fast_consumer_heartbeat(
        self,
        state: CoordinatorState,
        member_id: str,
        epoch: int,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        timer_ms: int,
    ) -> int | None:
        durable = self.durable
        member, of_member = durable.members.get(member_id), self.members_timers.get(member_id)
        if (
            member is None
            or of_member is None
            or member.classic is not None
            or member.state is not ReconciliationState.STABLE
            or not 0 < epoch == member.member_epoch == durable.assignment_epoch == durable.epoch
            or (instance_id is not None and (instance_id != member.instance_id or durable.static_members.get(instance_id) != member_id))
            or client_id != member.client_id
            or client_host != member.client_host
            # Topics may have changed, or are to be looked up again.
            or self.seen_version != self.topics.topics_version
            or self.seen_epoch > epoch
            or durable.subscriptions.regexes
        ):
            return None
        of_member.session_timeout_ms = state.configs.group_number(self.group_id, SESSION_TIMEOUT)
        of_member.last_seen_ms = timer_ms
        state.timers.arm(of_member.session, timer_ms + of_member.session_timeout_ms)
        return state.configs.group_number(self.group_id, HEARTBEAT_INTERVAL)

    def unload(self, context: CommandContext) -> None:
        context.log(f"[GroupId={self.group_id}] Unloaded group metadata for group epoch {self.durable.epoch}.")

    def parked_requests(self) -> Iterable[int]:
        return ()

    def timers(self) -> Iterator[Timer]:
        yield self.resolution_timer
        for timers in self.members_timers.values():
            yield from _armable(timers)

    # Timers of members

    def timers_of(self, member_id: str) -> ConsumerTimers:
        """The timers of a member."""
        timers = self.members_timers.get(member_id)
        if timers is None:
            session, revocation = Timer(CONSUMER_SESSION, self.group_id, member_id), Timer(REVOCATION, self.group_id, member_id)
            timers = self.members_timers[member_id] = ConsumerTimers(session, revocation)
        return timers

    def arm_session(self, context: CommandContext, member: ConsumerMember, *, is_loaded: bool = False) -> None:
        """Begin the session of a member again. As in Kafka, after loading the group's timeout holds for all members."""
        timers = self.timers_of(member.member_id)
        own_ms = None if member.classic is None or is_loaded else member.classic.session_timeout_ms
        timers.session_timeout_ms = context.group_number(self, SESSION_TIMEOUT) if own_ms is None else own_ms
        timers.last_seen_ms = context.timer_ms
        context.arm(timers.session, timers.session_timeout_ms)

    def arm_revocation(self, context: CommandContext, member: ConsumerMember) -> None:
        """Give a member its rebalance timeout to revoke what it must."""
        timers = self.timers_of(member.member_id)
        timers.revocation_epoch = member.member_epoch
        context.arm(timers.revocation, member.rebalance_timeout_ms)

    def expect_join(self, context: CommandContext, member: ConsumerMember) -> None:
        """Give a member of the classic protocol its rebalance timeout to join again, unless it has it already."""
        timers = self.timers_of(member.member_id)
        if timers.join is None:
            timers.join = Timer(CLASSIC_JOIN, self.group_id, member.member_id)
        if timers.join.at_ms is None:
            context.arm(timers.join, member.rebalance_timeout_ms)

    def expect_sync(self, context: CommandContext, member: ConsumerMember) -> None:
        """A member of the classic protocol has joined: give it its rebalance timeout to send SyncGroup."""
        timers = self.timers_of(member.member_id)
        if timers.join is not None:
            context.cancel(timers.join)
        if timers.sync is None:
            timers.sync = Timer(CLASSIC_SYNC, self.group_id, member.member_id)
        context.arm(timers.sync, member.rebalance_timeout_ms)

    def synced(self, context: CommandContext, member: ConsumerMember) -> None:
        """A member of the classic protocol got its assignment."""
        sync = self.timers_of(member.member_id).sync
        if sync is not None:
            context.cancel(sync)

    def cancel_timers(self, context: CommandContext, member_id: str) -> None:
        """The member is gone."""
        timers = self.members_timers.pop(member_id, None)
        if timers is not None:
            for timer in _armable(timers):
                context.cancel(timer)

    # What events, snapshots and tools show

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic; None if it does not exist any more."""
        topic = self.topics.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def by_name(self, partitions: Partitions | Assigned) -> Mapping[str, tuple[int, ...]]:
        """Partitions by topic name; a topic that was deleted has its id for a name."""
        topics = self.topics.topics_by_id
        return {
            (topics[topic_id].name if topic_id in topics else uuid_text(topic_id)): tuple(sorted(numbers))
            for topic_id, numbers in partitions.items()
            if numbers
        }

    def liveness(self, context: CommandContext, member: ConsumerMember) -> dict[str, int]:
        """How long a member is silent, and its timeouts: evidence of events."""
        timers = self.members_timers.get(member.member_id)
        if timers is None:
            return {}
        return {
            "last_heartbeat_age_ms": context.timer_ms - timers.last_seen_ms,
            "session_timeout_ms": timers.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
        }

    def event_member(self, member: ConsumerMember, assignment: Mapping[str, Sequence[int]]) -> EventMember:
        """A member as events show it."""
        timers = self.members_timers.get(member.member_id)
        return EventMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=timers.session_timeout_ms if timers is not None else 0,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            assignment=assignment,
        )

    def event_members(self, members: Mapping[str, ConsumerMember], assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> EventMembers:
        """Members, as `event_member` makes them, when somebody reads them."""
        timers = self.members_timers
        rows = [
            (
                member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                timers[member_id].session_timeout_ms if member_id in timers else 0,
                member.rebalance_timeout_ms,
                assignment[member_id],
            )
            for member_id, member in members.items()
        ]
        return EventMembers(self.protocol_type, rows)

    def snapshot(self, *, metadata: GroupMetadataValue | None, offsets: OffsetsByTopic) -> GroupSnapshot:
        durable = self.durable
        return GroupSnapshot(
            group_id=self.group_id,
            state=self.state_name,
            state_since_ms=self.state_since_ms,
            generation=self.generation,
            metadata=metadata,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=None,
            subscribed_topics=frozenset(durable.subscriptions.topics(durable.regexes)),
            members=tuple(self._member_snapshot(member) for member in durable.members.values()),
            pending_member_ids=(),
            pending_sync_ids=(),
            join_deadline_ms=None,
            sync_deadline_ms=None,
            offsets={topic: dict(by_partition) for topic, by_partition in offsets.items()},
        )

    def _member_snapshot(self, member: ConsumerMember) -> MemberSnapshot:
        timers = self.members_timers.get(member.member_id)
        return MemberSnapshot(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=timers.session_timeout_ms if timers is not None else 0,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=() if member.classic is None else tuple(protocol.name for protocol in member.classic.supported_protocols),
            assignment=b"",
            assigned=self.by_name(member.assigned),
            parked_in=None,
            is_new=False,
            last_seen_ms=timers.last_seen_ms if timers is not None else 0,
            session_deadline_ms=timers.session.at_ms if timers is not None else None,
        )

    def summary(self, offset_commits: int) -> GroupSummary:
        return GroupSummary(
            group_id=self.group_id,
            state=self.state_name,
            generation=self.generation,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=self.protocol or "",
            members=len(self.durable.members),
            static_members=len(self.durable.static_members),
            pending=0,
            offset_commits=offset_commits,
            group_type=CONSUMER,
        )

    def assignments(self) -> tuple[MemberAssignment, ...] | None:
        if self.state_name != "Stable":
            return None
        return tuple(
            MemberAssignment(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                partitions=tuple((topic, number) for topic, numbers in self.by_name(member.assigned).items() for number in numbers),
            )
            for member in self.durable.members.values()
        )


def _has_epoch_of(member: ConsumerMember, epoch: int, topics: Iterable[TopicOffsets]) -> bool:
    """Whether a commit has the member's epoch, or an older one in which it already had all of these partitions (KIP-1251)."""
    if epoch >= member.member_epoch:
        return epoch == member.member_epoch
    for topic in topics:
        assigned, pending = member.assigned.get(topic.topic_id, {}), member.pending.get(topic.topic_id, {})
        for number in topic.partitions:
            since = assigned.get(number, pending.get(number))
            if since is None or epoch < since:
                return False
    return True


def _armable(timers: ConsumerTimers) -> Iterator[Timer]:
    yield from (timer for timer in (timers.session, timers.revocation, timers.join, timers.sync) if timer is not None)


def find_consumer_group(state: CoordinatorState, group_id: str) -> ConsumerGroup | None:
    """The consumer group of this id; None if there is none."""
    group = state.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None
