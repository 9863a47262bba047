"""One rebalance of one group, as all sources together show it: the input of a verdict.

Rounds are built in steps (merging, membership, returns); rules read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.groups.events import EventMember
from ottla.history.processes import AssignmentDiff, Identity
from ottla.history.rounds.splitting import Part
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind
from ottla.protocol.model import TopicPartition


class Membership(NamedTuple):
    """The members of a generation. `has_assignments`: the source lists who owns what; `topics`: what they subscribe to, where known."""

    members: Mapping[str, EventMember]
    protocol: str | None
    topics: frozenset[str] | None
    has_assignments: bool

    @property
    def names(self) -> frozenset[str]:
        """The members by instance id, or else by member id."""
        return frozenset(member.instance_id or member_id for member_id, member in self.members.items())


def same_members(before: Membership, after: Membership) -> bool:
    """Whether the members are the same, static ones by instance id."""
    return before.members.keys() == after.members.keys() or before.names == after.names


@dataclass(slots=True, kw_only=True, eq=False)
class Departure:
    """A member that was there before and is gone.

    role: a `changes.Role`; "" where only the list of members shows it. items: all lines about it; client_items: what its own log says.
    client_reason: "" where the client gave none, None where no source shows reasons. commit_gap_ms: from the last commit of its partitions
    to the rebalance, on one clock; commit_interval_ms: how often it committed. returned_after_ms: None where the clocks differ.
    """

    who: Identity
    at_ms: int
    clock: str
    role: str = ""
    items: list[Evidence] = field(default_factory=list)
    client_items: list[Evidence] = field(default_factory=list)
    client_reason: str | None = None
    figures: Mapping[str, int] = field(default_factory=dict)
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    partition_count: int | None = None
    commit_gap_ms: int | None = None
    commit_interval_ms: int | None = None
    returned: "Arrival | None" = None
    returned_after_ms: int | None = None
    is_replaced_before: bool = False
    """Its client had joined again, as a new member, when it was removed: a process that was killed and started again."""
    is_same_connection: bool | None = None
    """Whether its client came back on the connection on which it was a member; None where no source knows ports."""
    is_left_by_other: bool | None = None
    """Its LeaveGroup came on another connection than its JoinGroup."""
    is_shared_name: bool = False
    """Other members have the same name, so that it need not be this one that came back."""
    is_consumer_type: bool = False
    is_protocol_changed: bool = False
    is_nameless_pair: bool = False
    """Nothing but the times says that `returned` is the same client."""
    may_be_replaced: bool = False
    """Another member, of which only a random id is known, came while its session was still open."""
    returned_at_once: bool = False
    """In the same rebalance."""
    present_ms: int | None = None
    """How long it was there, if it had joined in the rebalance before."""
    is_with_others: bool = False
    """Other clients joined in the same rebalance."""
    had_left_for_now: bool = False
    """KIP-848: it is static, and had said before that it closes."""
    closed_before: "list[Departure]" = field(default_factory=list)
    """Members that left within a session before it."""
    unsaid: frozenset[Cause] = frozenset()
    """Causes that its log would show, and does not."""
    went_with_all: bool = False
    """It and all other members went at once."""


@dataclass(slots=True, kw_only=True, eq=False)
class Arrival:
    """A member that joined. `loss`: the departure of the same client before, None where there is none within minutes."""

    who: Identity
    at_ms: int
    clock: str
    items: list[Evidence] = field(default_factory=list)
    client_items: list[Evidence] = field(default_factory=list)
    client_reason: str | None = None
    loss: Departure | None = None
    replaces: bool = False
    """A member of the same name was still listed: it is removed later."""
    may_replace: bool = False
    """The session of another member, of which only a random id is known, expired soon after."""
    is_protocol_changed: bool = False


class Previous(NamedTuple):
    """What a round needs to know of the one before it, if their clock is the same."""

    clock: str
    ended_ms: int
    is_membership_change: bool
    is_cold_start: bool
    members: int | None
    is_resubscribed: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Round:
    """One rebalance, or (`is_avoided`) one that did not happen.

    `parts`: the same rebalance as each source shows it, the most informative first. `follow_ups`: second halves of a cooperative rebalance.
    `since_move_ms`: since another coordinator had loaded the group, or the one before had unloaded it, on its clock.
    `since_outage_ms`: since the broker had lost members of several groups in one instant, some of them this group's, on its clock.
    `resubscribed`: members that subscribe to other topics than before, in it or in those just before and after it, where sources name them.
    `change`: what its assignment changed, where one is known.
    `protocol_before`, `protocol_after`: the assignors of the two generations, as lists of members, or else clients, name them.
    `client_arrivals`: clients that join for the first time in their log, or after a loss.
    `skipped`: generations before it that no source shows. `since_cold_start_ms`: since the group's first members joined, on its clock.
    """

    group: str
    generation: int | None
    parts: list[Part]
    is_avoided: bool = False
    client_items: list[Evidence] = field(default_factory=list)
    client_arrivals: list[Evidence] = field(default_factory=list)
    follow_ups: "list[Round]" = field(default_factory=list)
    before: Membership | None = None
    after: Membership | None = None
    count_before: int | None = None
    count_after: int | None = None
    departures: list[Departure] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    change: AssignmentDiff | None = None
    commits: Mapping[TopicPartition, CommitSpan] = field(default_factory=dict)
    commits_after: Mapping[TopicPartition, CommitSpan] = field(default_factory=dict)
    since_move_ms: int | None = None
    since_outage_ms: int | None = None
    resubscribed: frozenset[str] = frozenset()
    protocol_before: str | None = None
    protocol_after: str | None = None
    previous: Previous | None = None
    since_cold_start_ms: int | None = None
    skipped: int = 0
    say_resubscribed: frozenset[str] = frozenset()
    """Members that say that their subscription has changed, in it and in those next to it."""
    unsaid: dict[str, frozenset[Cause]] = field(default_factory=dict)
    """By member id: the causes that the member's log would show at this time, and does not."""
    is_owner_silent: bool | None = None
    """Of a member that may not join: whether the owner of its instance id was dead, as its session expired soon after."""

    @property
    def diff(self) -> AssignmentDiff | None:
        """What its assignment changed; None where no assignment before is known."""
        return None if self.change is None or self.change.is_first else self.change

    @property
    def settled(self) -> Membership | None:
        """The members and assignments after its last second half."""
        return next((rebalance.after for rebalance in reversed(self.follow_ups) if rebalance.after is not None), self.after)

    @property
    def main(self) -> Part | None:
        """The part of the most informative source; None where only clients saw the rebalance."""
        return self.parts[0] if self.parts else None

    @property
    def clock(self) -> str:
        """The clock of its times."""
        return self.parts[0].clock if self.parts else self.client_items[0].clock

    @property
    def started_ms(self) -> int:
        """Its first trigger, or the first that a source shows of it."""
        return self.parts[0].started_ms if self.parts else min(item.at_ms for item in self.client_items if item.clock == self.clock)

    @property
    def ended_ms(self) -> int | None:
        """When its last assignment was stored; None where it never came to that."""
        if self.follow_ups:
            return self.follow_ups[-1].ended_ms
        if self.parts:
            return self.parts[0].ended_ms
        return max(item.at_ms for item in self.client_items if item.clock == self.clock)

    @property
    def reconciled(self) -> Sequence[Evidence]:
        """KIP-848: members that came to the target, or gave up partitions for it, as the most informative source that knows says."""
        return next((part.reconciled for part in self.parts if part.reconciled), ())

    @property
    def items(self) -> Iterator[Evidence]:
        """Everything that sources of the whole group say about it."""
        return (item for part in self.parts for item in part.items)

    @property
    def context(self) -> Iterator[Evidence]:
        """What the same sources say of the time just before it."""
        return (item for part in self.parts for item in part.context)

    def of_kind(self, *kinds: Kind) -> list[Evidence]:
        """The items of these kinds, the most informative source's first."""
        return [item for item in self.items if item.kind in kinds]

    def items_before(self, item: Evidence) -> int:
        """How many members came or went, on its own clock, before this item."""
        part = next(part for part in self.parts if item in part.items)
        return part.items.index(item)

    @property
    def is_start(self) -> bool:
        """Whether the group had no members before, or its first assignment was not stored yet."""
        return self.count_before == 0 or (self.previous is None and self.since_cold_start_ms is not None)

    @property
    def is_consumer_type(self) -> bool:
        """Whether the group speaks KIP-848."""
        return any(item.group_type == "consumer" for item in self.items)
