"""A classic group: its members, parked requests and rebalance. All of it is soft state, which a restart loses.

It maintains its counts and rejects transitions that the table does not contain. How it rebalances is in `rebalance`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.timers import Timer, Timers
from ottla.groups.classic.member import Member, Protocols, member_from_value
from ottla.groups.classic.states import ANSWERS, TRANSITIONS, GroupState
from ottla.groups.commands import (
    DescribedMember,
    DescribeGroup,
    DescribeResult,
    JoinMember,
    JoinResult,
    OffsetCommit,
    OffsetFetch,
    SyncResult,
    TxnOffsetCommit,
)
from ottla.groups.events import EventMember, GroupEvent, TriggerCode, readable_assignment
from ottla.groups.group import CommandContext, CoordinatorState, Group
from ottla.groups.log.committed_offsets import TopicOffsets
from ottla.groups.log.records import GroupMetadataRecord, GroupRecord
from ottla.groups.log.replayed_state import OffsetsByTopic
from ottla.groups.snapshots import GroupSnapshot, GroupSummary, MemberAssignment
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_subscribed_topics
from ottla.text import java_hash

CLASSIC: Final = "classic"
JOIN: Final = "join"
"""The timer of the join phase."""
SYNC: Final = "sync"
"""The timer of the members that have not sent SyncGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The change that takes effect when the group's record, which is being appended, is replayed.

    A static member's replacement has `replaced_id` and the new `member`; both are None for an assignment.
    """

    at_ms: int
    replaced_id: str | None = None
    member: Member | None = None


class ClassicGroup(Group):
    """One classic group. Only `transition` changes `state`; only `add`, `replace` and `remove` change `members`."""

    __slots__ = (
        "_supported",
        "awaiting_join_count",
        "initial_remaining_ms",
        "join_timer",
        "members",
        "new_member_added",
        "pending",
        "pending_sync",
        "previous_state",
        "staged",
        "state",
        "static_members",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        super().__init__(group_id, now_ms=now_ms)
        self.state = self.previous_state = GroupState.EMPTY
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending: dict[str, Timer] = {}
        """Member ids that were handed out and have not joined yet (KIP-394), with their session timers."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup, in the order in which they joined."""
        self.awaiting_join_count = 0
        self.new_member_added = False
        self.initial_remaining_ms: int | None = None
        """How much longer the initial rebalance delay may be extended; None when it does not run."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics of all members; None while they are unknown."""
        self.join_timer = Timer(JOIN, group_id)
        self.sync_timer = Timer(SYNC, group_id)
        self.staged: Staged | None = None
        self._supported: dict[str, int] = {}

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, *, timer_ms: int) -> "ClassicGroup":
        """The group from its record after a restart: Stable if it has members, with no request parked."""
        # UNKNOWN_MS before version 2 of the record. The present time would restart the retention of its offsets at every restart.
        group = cls(group_id, now_ms=value.current_state_timestamp_ms)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        for member in value.members:
            group._insert(member_from_value(group_id, value.protocol, member, timer_ms))
        group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.update_subscribed_topics()
        return group

    @classmethod
    def of_members(cls, group_id: str, members: Iterable[Member], *, protocol_type: str, generation: int, now_ms: int) -> "ClassicGroup":
        """A Stable group of these members, without assignments yet; the first one leads."""
        group = cls(group_id, now_ms=now_ms)
        group.generation = generation
        for member in members:
            group.add(member, protocol_type)
        group.protocol = group.select_protocol()
        group.state = GroupState.STABLE
        group.update_subscribed_topics()
        return group

    @property
    def group_type(self) -> str:
        return CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def delete_group_error(self) -> ErrorCode:
        return ANSWERS[self.state].delete_group

    @property
    def delete_offsets_error(self) -> ErrorCode:
        error = ANSWERS[self.state].delete_offsets
        # A group of consumers allows it for topics without a subscriber; which topics other members use is unknown.
        if error is ErrorCode.NON_EMPTY_GROUP and self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return error

    @property
    def can_expire_offsets(self) -> bool:
        # While members may consume topics that are unknown, no offset expires.
        if self.protocol_type is None or self.state is GroupState.EMPTY:
            return True
        knows_topics = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None
        return knows_topics and self.state is GroupState.STABLE

    def parked_requests(self) -> Iterator[int]:
        for member in self.members.values():
            yield from (to for to in (member.awaiting_join, member.awaiting_sync) if to is not None)

    def fast_heartbeat(self, generation: int, member_id: str, instance_id: str | None, timer_ms: int, timers: Timers) -> ErrorCode | None:
        member = self.members.get(member_id)
        if member is None or generation != self.generation:
            return None
        if instance_id is not None and self.static_members.get(instance_id) != member_id:
            return None
        member.last_seen_ms = timer_ms
        timers.arm(member.session, timer_ms + member.session_timeout_ms)
        return ANSWERS[self.state].heartbeat

    def fast_consumer_heartbeat(self, *_heartbeat: object) -> None:
        """A classic group has no members of the consumer protocol."""

    def tombstones(self) -> tuple[GroupRecord, ...]:
        # As in Kafka, a group without a record gets a tombstone, too: its replay removes the group.
        return (GroupMetadataRecord(group_id=self.group_id, value=None),)

    def check_fetch(self, command: OffsetFetch) -> ErrorCode:
        return ErrorCode.NONE

    def check_commit(self, context: CommandContext, command: OffsetCommit, topics: Iterable[TopicOffsets]) -> ErrorCode:
        answers = ANSWERS[self.state]
        if self.state is GroupState.DEAD:
            return answers.commit
        if command.generation < 0 and self.state is GroupState.EMPTY:
            return answers.commit_anonymous
        if command.generation < 0 and not command.member_id and command.instance_id is None:
            return answers.commit_anonymous
        error = self.check_member(context, command.member_id, command.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if command.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if answers.commits_keep_session:
            self.members[command.member_id].restart_session(context)
        return answers.commit

    def check_transactional_commit(self, context: CommandContext, command: TxnOffsetCommit) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if command.generation < 0 and (self.state is GroupState.EMPTY or (not command.member_id and command.instance_id is None)):
            return ErrorCode.NONE
        error = self.check_member(context, command.member_id, command.instance_id)
        if error is ErrorCode.NONE and command.generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def check_member(self, context: CommandContext, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID (KIP-345); an id that has not joined yet is not a member."""
        if instance_id is not None:
            holder_id = self.static_members.get(instance_id)
            if holder_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder_id != member_id:
                self._report_fenced(context, self.members[holder_id], member_id)
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _report_fenced(self, context: CommandContext, holder: Member, member_id: str) -> None:
        # Two processes with one instance id are a deployment mistake that shows nowhere else; each fenced member id is reported once.
        if holder.fenced_id == member_id:
            return
        holder.fenced_id = member_id
        reason = (
            f"Request memberId={member_id} for static member with groupInstanceId={holder.instance_id} "
            f"is fenced by existing memberId={holder.member_id}"
        )
        context.log(reason)
        evidence = holder.liveness(context.timer_ms)
        self.emit_static_change(context, "static_fenced", TriggerCode.STATIC_FENCED, holder, reason=reason, evidence=evidence)

    def emit_static_change(
        self,
        context: CommandContext,
        kind: str,
        code: TriggerCode,
        member: Member,
        *,
        reason: str,
        evidence: Mapping[str, int],
        members: Sequence[EventMember] = (),
    ) -> None:
        """Publish a change of a static member without a rebalance: `static_replaced` or `static_fenced`."""
        context.events.append(
            GroupEvent(
                at_ms=context.now_ms,
                group=self.group_id,
                kind=kind,
                generation=self.generation,
                state_from=self.state.value,
                state_to=self.state.value,
                trigger=code.value,
                reason=reason,
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                protocol=self.protocol,
                leader=self.leader,
                members=members,
                evidence=evidence,
            )
        )

    def record(self, members: tuple[MemberValue, ...], *, leader: str | None) -> GroupMetadataRecord:
        """The group's record at its current generation."""
        return GroupMetadataRecord(
            group_id=self.group_id,
            value=GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=leader,
                current_state_timestamp_ms=self.state_since_ms,
                members=members,
            ),
        )

    def unload(self, context: CommandContext) -> None:
        context.log(f"[GroupId={self.group_id}] Unloading group metadata for generation {self.generation}.")
        for member in self.members.values():
            join_reply_to = self.unpark_join(member)
            if join_reply_to is not None:
                context.reply(join_reply_to, JoinResult(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
            if member.awaiting_sync is not None:
                context.reply(member.awaiting_sync, SyncResult(error=ErrorCode.NOT_COORDINATOR))
                member.awaiting_sync = None
        self.transition(GroupState.DEAD, context.now_ms)

    def snapshot(self, *, metadata: GroupMetadataValue | None, offsets: OffsetsByTopic) -> GroupSnapshot:
        return GroupSnapshot(
            group_id=self.group_id,
            state=self.state.value,
            state_since_ms=self.state_since_ms,
            generation=self.generation,
            metadata=metadata,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            subscribed_topics=self.subscribed_topics,
            members=tuple(member.snapshot(self.protocol_type) for member in self.members.values()),
            pending_member_ids=tuple(self.pending),
            pending_sync_ids=tuple(self.pending_sync),
            join_deadline_ms=self.join_timer.at_ms,
            sync_deadline_ms=self.sync_timer.at_ms,
            offsets={topic: dict(by_partition) for topic, by_partition in offsets.items()},
        )

    def summary(self, offset_commits: int) -> GroupSummary:
        return GroupSummary(
            group_id=self.group_id,
            state=self.state.value,
            generation=self.generation,
            protocol_type=self.protocol_type or "",
            protocol=self.protocol or "",
            members=len(self.members),
            static_members=len(self.static_members),
            pending=len(self.pending),
            offset_commits=offset_commits,
        )

    def assignments(self) -> tuple[MemberAssignment, ...] | None:
        if self.state is not GroupState.STABLE:
            return None
        return tuple(
            MemberAssignment(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                partitions=tuple(
                    (topic, partition)
                    for topic, partitions in readable_assignment(self.protocol_type, member.assignment).items()
                    for partition in partitions
                ),
            )
            for member in self.members.values()
        )

    def timers(self) -> Iterator[Timer]:
        yield from (self.join_timer, self.sync_timer, *self.pending.values())
        for member in self.members.values():
            yield member.session

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Change to `state`, which the table must allow."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one becomes the leader and sets the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        self._insert(member)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending id. The caller has answered its parked requests and cancelled its timer."""
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.awaiting_join is None, f"{member_id} still waits in JoinGroup"
            assert member.awaiting_sync is None, f"{member_id} still waits in SyncGroup"
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, replaced_id: str, member: Member) -> None:
        """Replace a static member by its new member id, which keeps the assignment and the leadership (KIP-345)."""
        leads = self.leader == replaced_id
        syncs = replaced_id in self.pending_sync
        old = self.remove(replaced_id)
        assert old is not None, f"{replaced_id} is not a member"
        member.assignment = old.assignment
        self._insert(member)
        if syncs:
            # As in Kafka: the new id may send SyncGroup, and the old one stays missing until the sync timer starts a rebalance.
            self.pending_sync[replaced_id] = None
        if leads or self.leader is None:
            self.leader = member.member_id

    def update(self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        """Update a member that joins again."""
        member.is_loaded = False
        if member.protocols != protocols:
            self._count_protocols(member, -1)
            member.protocols = protocols
            self._count_protocols(member, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def park_join(self, member: Member, reply_to: int) -> int | None:
        """Park a JoinGroup; returns the `reply_to` of the member's parked one, which it replaces, or None."""
        superseded = member.awaiting_join
        if superseded is None:
            self.awaiting_join_count += 1
        member.awaiting_join = reply_to
        return superseded

    def unpark_join(self, member: Member) -> int | None:
        """Release a member's parked JoinGroup; returns its `reply_to`, None if none was parked."""
        reply_to = member.awaiting_join
        if reply_to is not None:
            self.awaiting_join_count -= 1
            member.awaiting_join = None
        return reply_to

    def _insert(self, member: Member) -> None:
        assert member.member_id not in self.members, f"{member.member_id} is a member already"
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count_protocols(member, 1)

    def _count_protocols(self, member: Member, change: int) -> None:
        for name in dict.fromkeys(name for name, _ in member.protocols):
            count = self._supported.pop(name, 0) + change
            if count:
                self._supported[name] = count

    @property
    def all_joined(self) -> bool:
        """Whether every member is parked in JoinGroup and no handed-out id is still to join."""
        return len(self.members) == self.awaiting_join_count and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of its members, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: every member must support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        size = len(self.members)
        return any([self._supported.get(name, 0) == size for name, _ in protocols])  # noqa: C419 - a list is made faster than a generator

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support; of equals, the one that Java's hash map has first."""
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: (votes[name], -_java_bucket(name)))

    def update_subscribed_topics(self) -> None:
        """Read the members' topics again; they are unknown if a subscription cannot be decoded."""
        self.subscribed_topics = self._compute_subscribed_topics()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its members consume `topic`; a consumer group whose topics are unknown counts as subscribed."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def join_members(self) -> tuple[JoinMember, ...]:
        """All members as the leader's JoinGroup response lists them."""
        return tuple(
            JoinMember(member_id=member.member_id, instance_id=member.instance_id, metadata=member.metadata(self.protocol))
            for member in self.members.values()
        )

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            # Most members have the same subscription.
            for metadata in {member.metadata(self.protocol) for member in self.members.values()}:
                topics.update(parse_subscribed_topics(metadata))
        except PeerError:
            return None
        return frozenset(topics)


def find_group(state: CoordinatorState, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None if there is none."""
    group = state.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def describe_group(context: CommandContext, command: DescribeGroup) -> None:
    """Answer with the group's present state; an unknown group is Dead, for newer clients with an error."""
    group = find_group(context.state, command.group_id)
    if group is None:
        unknown = command.unknown_is_error
        result = DescribeResult(
            error=ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.NONE,
            group_id=command.group_id,
            state=GroupState.DEAD.value,
            error_message=f"Group {command.group_id} not found." if unknown else None,
        )
    else:
        shows_metadata = ANSWERS[group.state].describes_metadata
        result = DescribeResult(
            error=ErrorCode.NONE,
            group_id=group.group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=group.protocol or "" if shows_metadata else "",
            members=tuple(_describe_member(member, group, shows_metadata=shows_metadata) for member in group.members.values()),
        )
    context.reply(command.reply_to, result)


def _describe_member(member: Member, group: ClassicGroup, *, shows_metadata: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(group.protocol) if shows_metadata else b"",
        assignment=member.assignment,
    )


def _java_bucket(name: str) -> int:
    """The bucket of a name in a Java hash map of the initial size: of protocols with equal votes, Kafka takes the first in this order."""
    spread = java_hash(name) & 0xFFFFFFFF
    return (spread ^ spread >> 16) & 15
