"""One classic group as it is right now: members, who waits for what, the round in progress. Soft state: a restart forgets it.

It keeps its own counts true and refuses transitions that the table does not have; it never decides what a request is answered,
never replies, and arms no timer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.core.errors import PeerError
from ottla.core.groups.effects import JoinMember
from ottla.core.groups.placement import java_hash
from ottla.core.groups.records import GroupMetadataValue, MemberValue
from ottla.core.groups.states import TRANSITIONS, GroupState
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE, parse_subscribed_topics
from ottla.core.groups.timers import JOIN, SESSION, SYNC, Timer

Protocols = tuple[tuple[str, bytes], ...]

UNKNOWN_MS = -1
"""A time that an old record does not tell."""


class Member:
    """One member. `awaiting_join` and `awaiting_sync` are the `reply_to` of its parked request, None when none is parked."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "fenced_id",
        "instance_id",
        "is_loaded",
        "is_new",
        "last_seen_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        now_ms: int,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaiting_join: int | None = None
        self.awaiting_sync: int | None = None
        self.is_new = False
        self.is_loaded = False
        """Only the protocol that its group's record keeps is known of it, until it joins again."""
        self.last_seen_ms = now_ms
        """When it last gave a sign of life (a request of any kind), by the clock of the timers."""
        self.session = Timer(SESSION, group_id, member_id)
        self.fenced_id: str | None = None
        """The last member id that was refused because this static member took its place (told once each)."""

    @property
    def counts_as_alive(self) -> bool:
        """A parked member cannot beat, so its session does not run out; a new one has only its joining time."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What it said under `protocol`; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that it listed first."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports no candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What takes effect with the group's record that is being appended, and not before.

    `replaced_id` and `member`: a static member's new incarnation, which takes the old one's place; None for a leader's plan.
    """

    at_ms: int
    replaced_id: str | None = None
    member: Member | None = None


class ClassicGroup:
    """One classic group; `state` moves by `transition` alone, members come and go by `add`, `replace` and `remove` alone."""

    __slots__ = (
        "_supported",
        "awaiting_join_count",
        "generation",
        "group_id",
        "initial_remaining_ms",
        "join_timer",
        "leader",
        "members",
        "new_member_added",
        "pending",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "staged",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.group_id = group_id
        self.state = self.previous_state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending: dict[str, Timer] = {}
        """Member ids that were handed out and have not joined yet (KIP-394), with their deadlines."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup, in order."""
        self.awaiting_join_count = 0
        self.new_member_added = False
        self.initial_remaining_ms: int | None = None
        """How far the first round's delay may still be extended; None outside such a round."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics of all members; None while they are not known."""
        self.join_timer = Timer(JOIN, group_id)
        self.sync_timer = Timer(SYNC, group_id)
        self.staged: Staged | None = None
        self._supported: dict[str, int] = {}

    @classmethod
    def from_registration(cls, group_id: str, value: GroupMetadataValue, *, timer_ms: int) -> "ClassicGroup":
        """The group as its record tells it after a restart: Stable if it has members, nobody parked."""
        # UNKNOWN_MS before version 2 of the record: not now, or what is left of a group would grow young at every restart.
        group = cls(group_id, now_ms=value.current_state_timestamp_ms)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        for registered in value.members:
            group._insert(_loaded_member(group_id, value.protocol, registered, timer_ms))
        group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.learn_subscribed_topics()
        return group

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Move to `state`, which the table must allow."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first one leads and fixes the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        self._insert(member)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Let a member or a pending id go; its timers and parked requests are the caller's to settle first."""
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
        """Put a static member's new incarnation in place of the old one: it keeps the assignment and the lead (KIP-345)."""
        leads = self.leader == replaced_id
        syncs = replaced_id in self.pending_sync
        old = self.remove(replaced_id)
        assert old is not None, f"{replaced_id} is not a member"
        member.assignment = old.assignment
        self._insert(member)
        if syncs:
            self.pending_sync[member.member_id] = None
        if leads or self.leader is None:
            self.leader = member.member_id

    def update(self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        """A member joins again with what it says now."""
        member.is_loaded = False
        if member.protocols != protocols:
            self._count_protocols(member, -1)
            member.protocols = protocols
            self._count_protocols(member, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def park_join(self, member: Member, reply_to: int) -> int | None:
        """Let a JoinGroup wait; returns the `reply_to` of an earlier one of the same member, which it takes the place of."""
        superseded = member.awaiting_join
        if superseded is None:
            self.awaiting_join_count += 1
        member.awaiting_join = reply_to
        return superseded

    def unpark_join(self, member: Member) -> int | None:
        """End the wait of a member's JoinGroup; returns its `reply_to`, None if none was parked."""
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

    def _count_protocols(self, member: Member, step: int) -> None:
        for name in dict.fromkeys(name for name, _ in member.protocols):
            count = self._supported.pop(name, 0) + step
            if count:
                self._supported[name] = count

    # Questions

    @property
    def all_joined(self) -> bool:
        """Every member waits in JoinGroup and no id that was handed out is still expected."""
        return len(self.members) == self.awaiting_join_count and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether someone with these protocols can be in it: one of them must be known to every member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        size = len(self.members)
        return any([self._supported.get(name, 0) == size for name, _ in protocols])  # noqa: C419 - a list is made faster than a generator

    def select_protocol(self) -> str:
        """The protocol that most members vote for among those that all support; of equals, the one that Java's hash map has first."""
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: (votes[name], -_java_bucket(name)))

    def learn_subscribed_topics(self) -> None:
        """Read the members' topics anew; they stay unknown if one member's subscription cannot be read."""
        self.subscribed_topics = self._compute_subscribed_topics()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its members consume `topic`; a consumer group whose topics are unknown counts as subscribed."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def join_members(self) -> tuple[JoinMember, ...]:
        """All members as the leader is told about them."""
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
            # Most members say the same.
            for metadata in {member.metadata(self.protocol) for member in self.members.values()}:
                topics.update(parse_subscribed_topics(metadata))
        except PeerError:
            return None
        return frozenset(topics)


def _java_bucket(name: str) -> int:
    """Where a Java hash map of its first size keeps a name: that decides which of two protocols with equal votes Kafka takes."""
    spread = java_hash(name) & 0xFFFFFFFF
    return (spread ^ spread >> 16) & 15


def _loaded_member(group_id: str, protocol: str | None, value: MemberValue, timer_ms: int) -> Member:
    member = Member(
        group_id,
        value.member_id,
        instance_id=value.instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout_ms,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        protocols=((protocol or "", value.subscription),),
        now_ms=timer_ms,
    )
    member.assignment = value.assignment
    member.is_loaded = True
    return member
