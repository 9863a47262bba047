"""Who came, who went, and who was a member before and after each rebalance, as sources say it in so many words or as their lists show it.

A member has one entry, whatever the number of lines about it. The walk over a group's rounds in their order also notes when partitions
committed, and which topics members subscribe to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from ottla.groups.events import NO_REASON, EventMember
from ottla.history.processes import Identity, KnownMembers, of_evidence, of_member
from ottla.history.rounds.round import Arrival, Departure, Membership, Previous, Round
from ottla.history.rounds.splitting import CONSUMER_TYPE, Part
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind, Source
from ottla.history.sources.outages import LOST_AT_ONCE
from ottla.protocol.model import TopicPartition

SUBSCRIPTION_CHANGED: Final = "subscription has changed"
PATTERN_WITHIN_MS: Final = 60_000
"""Members that subscribe to a pattern see that a topic matches it at different times, each when it asks for metadata again."""


class Role(StrEnum):
    """What a piece of evidence says that a member did, or that was done to it."""

    LISTED = ""
    """It is not listed any more, and the source does not say why."""

    JOINED = "joined"
    LEFT = "left"
    EXPIRED = "expired"
    LATE_TO_JOIN = "late to join"
    LATE_TO_SYNC = "late to sync"
    REMOVED = "removed"
    """Removed, and the source does not say why."""
    REJOINED = "rejoined"
    OTHER = "other"


_TEXTS: Final = (
    ("adding new member", Role.JOINED),
    ("explicit `leavegroup`", Role.LEFT),
    ("leader ", Role.REJOINED),
    ("updating metadata for member", Role.REJOINED),
    ("member ", Role.REJOINED),
)
"""How the coordinator's reasons begin, in lower case."""
_CODES: Final = {
    Cause.JOIN_NEW: Role.JOINED,
    Cause.COLD_START: Role.JOINED,
    Cause.RESTART_DYNAMIC: Role.JOINED,
    "LEAVE": Role.LEFT,
    Cause.LEAVE_CLOSE: Role.LEFT,
    Cause.POLL_TIMEOUT: Role.LEFT,
    "ADMIN_REMOVE": Role.LEFT,
    Cause.ADMIN: Role.LEFT,
    Cause.EXPIRE_HEARTBEAT: Role.EXPIRED,
    Cause.JOIN_TIMEOUT: Role.LATE_TO_JOIN,
    Cause.SYNC_TIMEOUT: Role.LATE_TO_SYNC,
    Cause.TOPIC_CHANGE: Role.REJOINED,
    Cause.SUBSCRIPTION: Role.REJOINED,
    "LEADER_REJOIN": Role.REJOINED,
    "METADATA_UPDATE": Role.REJOINED,
    Cause.COOP_FOLLOWUP: Role.REJOINED,
    Cause.ENFORCED: Role.REJOINED,
    Cause.LEADER_REJOIN_SPURIOUS: Role.REJOINED,
    Cause.COORDINATOR_MOVE: Role.REJOINED,
}
DEPARTS: Final = frozenset({Role.LISTED, Role.LEFT, Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC, Role.REMOVED})


_RANK: Final[Mapping[str, int]] = {
    Role.LISTED: 0,
    Role.REMOVED: 1,
    Role.LEFT: 2,
    Role.EXPIRED: 3,
    Role.LATE_TO_JOIN: 3,
    Role.LATE_TO_SYNC: 3,
}
"""The more a role says, the higher."""


def role_of(item: Evidence) -> Role:
    """What the evidence says that its member did."""
    if item.kind is Kind.MEMBER_JOINED:
        return Role.JOINED
    if item.kind is Kind.MEMBER_LEFT:
        return Role.LISTED if item.source in (Source.OFFSETS_TOPIC, Source.ADMIN) else Role.LEFT
    if item.kind is Kind.MEMBER_REMOVED:
        return _CODES.get(first_code(item), Role.REMOVED)
    if item.kind is not Kind.TRIGGER:
        return Role.OTHER
    if item.group_type == CONSUMER_TYPE:
        return _CODES.get(first_code(item), Role.OTHER)
    text = (item.reason or "").lower()
    if text.startswith("removing member") and "leavegroup" in text:
        return Role.LEFT
    for start, role in _TEXTS:
        if text.startswith(start):
            return role
    return _CODES.get(first_code(item), Role.OTHER)


def first_code(item: Evidence) -> str:
    """The cause that the source names, or the likeliest that it leaves open; "" where it names none."""
    return item.trigger or (item.candidates[0] if item.candidates else "")


def read_changes(rebalance: Round, known: KnownMembers) -> None:
    """Fill in who came and who went, in the order in which the best source says it."""
    gone: dict[str, Departure] = {}
    came: dict[str, Arrival] = {}
    for item in rebalance.items:
        role = role_of(item)
        if role is Role.JOINED:
            _add_arrival(came, item, known)
        elif role in DEPARTS:
            _add_departure(gone, item, role, known)
    named = [departure for departure in gone.values() if departure.who.member_id or departure.who.instance_id]
    rebalance.departures = named or list(gone.values())  # a line that names no member repeats those that name one
    rebalance.arrivals = list(came.values())


def attach_client_items(rebalance: Round, known: KnownMembers) -> None:
    """Give each departure what its client's own log says; a loss that only clients saw is a departure, too."""
    for item in rebalance.client_items:
        if item.kind in (Kind.CLIENT_LEAVES, Kind.CLIENT_LOST):
            who = known.complete(of_evidence(item))
            departure = _matching(rebalance, who)
            if departure is None and not rebalance.departures and not rebalance.parts:
                departure = Departure(who=who, at_ms=item.at_ms, clock=item.clock, role=Role.REMOVED)
                rebalance.departures.append(departure)
            if departure is not None and not _contradicts(item, departure):
                departure.client_items.append(item)


_REMOVED_BY_COORDINATOR: Final = frozenset({Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC})


def _contradicts(item: Evidence, departure: Departure) -> bool:
    """Whether a client's close is of another time: the coordinator removed this member, which had not left.

    A KIP-848 member may close without LeaveGroup, and a static one does; it is removed when its session ends.
    """
    is_close = item.kind is Kind.CLIENT_LEAVES and item.trigger == Cause.LEAVE_CLOSE
    may_be_silent = departure.is_consumer_type or departure.who.instance_id is not None
    return is_close and departure.role in _REMOVED_BY_COORDINATOR and not may_be_silent


def add_client_arrivals(rebalance: Round, known: KnownMembers) -> None:
    """Clients that joined, as only their own logs say."""
    for item in rebalance.client_arrivals:
        arrival = Arrival(who=known.complete(of_evidence(item)), at_ms=item.at_ms, clock=item.clock)
        arrival.client_items.append(item)
        rebalance.arrivals.append(arrival)


def _matching(rebalance: Round, who: Identity) -> Departure | None:
    """The departure of this member: by its id, by its name, or the only one of the round if the log names no member."""
    for departure in rebalance.departures:
        if who.member_id is not None and who.member_id == departure.who.member_id:
            return departure
    for departure in rebalance.departures:
        if who.is_same_client(departure.who):
            return departure
    is_nameless = who.member_id is None and who.name is None
    return rebalance.departures[0] if is_nameless and len(rebalance.departures) == 1 else None


def plain_reason(client_reason: str | None) -> str | None:
    """A client's reason; "" for the text that stands for none."""
    return "" if client_reason == NO_REASON else client_reason


def _add_departure(gone: dict[str, Departure], item: Evidence, role: Role, known: KnownMembers) -> None:
    key = item.member_id or item.instance_id or role
    departure = gone.get(key)
    if departure is None:
        who = known.complete(of_evidence(item))
        departure = gone[key] = Departure(who=who, at_ms=item.at_ms, clock=item.clock, role=role)
        departure.is_consumer_type = item.group_type == "consumer"
    elif _RANK[role] > _RANK.get(departure.role, 0) and not (departure.role == Role.LEFT and departure.clock == item.clock):
        departure.role = role  # who has left is removed once more only by a coordinator that had not stored it
    departure.items.append(item)
    departure.client_reason = departure.client_reason or plain_reason(item.client_reason)
    if item.evidence:
        departure.figures = {**item.evidence, **departure.figures}
        departure.session_timeout_ms = departure.session_timeout_ms or item.evidence.get("session_timeout_ms")
        departure.rebalance_timeout_ms = departure.rebalance_timeout_ms or item.evidence.get("rebalance_timeout_ms")


def _add_arrival(came: dict[str, Arrival], item: Evidence, known: KnownMembers) -> None:
    key = item.member_id or item.instance_id or ""
    arrival = came.get(key)
    if arrival is None:
        arrival = came[key] = Arrival(who=known.complete(of_evidence(item)), at_ms=item.at_ms, clock=item.clock)
    arrival.items.append(item)
    arrival.client_reason = arrival.client_reason or plain_reason(item.client_reason)


def topics_resubscribed(rebalance: Round) -> bool:
    """Whether a member subscribes to other topics than in the generation before."""
    figures = [item.evidence for item in rebalance.items if item.evidence]
    if any(found.get("topics_added") or found.get("topics_removed") for found in figures):
        return True
    counts = [found["members_resubscribed"] for found in figures if "members_resubscribed" in found]
    if counts:
        return any(counts)  # topics that only match a pattern of old are not subscribed
    before, after = rebalance.before, rebalance.after
    return (
        before is not None
        and after is not None
        and before.topics is not None
        and after.topics is not None
        and before.topics != after.topics
    )


def note_resubscribed(rounds: Iterable[Round]) -> None:
    """Give each of several rebalances in a row in which members subscribe to other topics the ids of all these members."""
    in_a_row: list[Round] = []
    for rebalance in rounds:
        if rebalance.is_avoided:
            continue
        rebalance.resubscribed, rebalance.say_resubscribed = resubscribed_members(rebalance), _who_says_so(rebalance)
        is_alone = not rebalance.departures and not rebalance.arrivals
        if (
            not (rebalance.resubscribed or rebalance.say_resubscribed)
            or not is_alone
            or (in_a_row and not _is_soon_after(in_a_row[-1], rebalance))
        ):
            _share(in_a_row)
            in_a_row = []
        if (rebalance.resubscribed or rebalance.say_resubscribed) and is_alone:
            in_a_row.append(rebalance)
    _share(in_a_row)


def resubscribed_members(rebalance: Round) -> frozenset[str]:
    """The ids of members that say so themselves."""
    named = (item for item in rebalance.items if item.member_id is not None and item.evidence)
    return frozenset(item.member_id or "" for item in named if item.evidence.get("topics_added") or item.evidence.get("topics_removed"))


def _who_says_so(rebalance: Round) -> frozenset[str]:
    """The ids of members whose reason is that their subscription has changed."""
    return frozenset(item.member_id or "" for item in rebalance.items if SUBSCRIPTION_CHANGED in (item.client_reason or ""))


def _is_soon_after(earlier: Round, later: Round) -> bool:
    return earlier.clock == later.clock and later.started_ms - earlier.started_ms <= PATTERN_WITHIN_MS


def _share(in_a_row: Sequence[Round]) -> None:
    everyone = frozenset[str]().union(*(rebalance.resubscribed for rebalance in in_a_row))
    say_so = frozenset[str]().union(*(rebalance.say_resubscribed for rebalance in in_a_row))
    for rebalance in in_a_row:
        rebalance.resubscribed, rebalance.say_resubscribed = everyone, say_so


class CommitHistory:
    """The newest commit of each partition, and how often it is committed. One entry a partition, whatever the number of commits."""

    def __init__(self) -> None:
        self._last_ms: dict[TopicPartition, int] = {}
        self._interval_ms: dict[TopicPartition, int] = {}
        self.clock: str | None = None

    def add(self, clock: str, commits: Mapping[TopicPartition, CommitSpan]) -> None:
        """Take commits in; a change of the clock makes the earlier ones useless."""
        if not commits:
            return
        if self.clock != clock:
            self._last_ms.clear()
            self._interval_ms.clear()
            self.clock = clock
        for partition, span in commits.items():
            if span.commit_count > 1:
                self._interval_ms[partition] = max(0, span.last_ms - span.first_ms) // (span.commit_count - 1)
            self._last_ms[partition] = max(span.last_ms, self._last_ms.get(partition, span.last_ms))

    def gap_ms(self, partitions: Iterable[TopicPartition], at_ms: int) -> tuple[int, int | None] | None:
        """From the last commit of any of the partitions to `at_ms`, and the usual interval between commits; None without commits."""
        known = [partition for partition in partitions if partition in self._last_ms]
        if not known:
            return None
        gap_ms = at_ms - max(self._last_ms[partition] for partition in known)
        intervals = [self._interval_ms[partition] for partition in known if partition in self._interval_ms]
        return max(0, gap_ms), min(intervals) if intervals else None


CLOSES_WITHIN_MS: Final = 60_000
CLOSED_MAX: Final = 100
FIRST_EPOCH: Final = 2
EARLY_GENERATION: Final = 3
_EMPTY: Final = Membership({}, None, None, True)
_LISTS_MEMBERS: Final = (Kind.SYNC_COMPLETED, Kind.JOIN_COMPLETED)


class MembershipWalk:
    """The state of one group between two rounds."""

    def __init__(self, known: KnownMembers) -> None:
        self._known = known
        self._membership: Membership | None = None
        self._explained: set[str] = set()
        """Member ids that came or went, by what a source says, since the last known membership."""
        self._count: int | None = None
        self._commits = CommitHistory()
        self._previous: Previous | None = None
        self._last: Round | None = None
        self._joined_ms: dict[str, tuple[str, int]] = {}
        """Who joined in the round before: by which clock, and when."""
        self._cold_start: tuple[str, int] | None = None
        self._moved: tuple[str, int] | None = None
        self._outage: tuple[str, int] | None = None
        self._left_for_now: set[str] = set()
        self._closed: list[Departure] = []
        self._generation: int | None = None
        self._protocol: str | None = None

    def take(self, rebalance: Round) -> None:
        """Fill in one round, the next in order."""
        self._read_context(rebalance)
        if rebalance.is_avoided:
            self._replace_static(rebalance)
            rebalance.before = rebalance.after = self._membership
            return
        rebalance.before, rebalance.count_before, rebalance.previous = self._membership, self._count, self._previous
        rebalance.protocol_before = self._protocol
        read_changes(rebalance, self._known)
        rebalance.after = _membership_after(rebalance)
        if self._membership is None and rebalance.after is not None and _is_first_generation(rebalance):
            self._set(_EMPTY)
            self._count = rebalance.count_before = 0
            rebalance.before = _EMPTY
        if rebalance.after is not None and self._membership is not None:
            self._add_unsaid(rebalance, self._membership, rebalance.after)
        for departure in rebalance.departures:
            if LOST_AT_ONCE in departure.figures:
                self._outage = departure.clock, departure.at_ms
            is_default = departure.who.has_default_name
            departure.is_with_others = any(is_default or not arrival.who.is_same_client(departure.who) for arrival in rebalance.arrivals)
            joined = self._joined_ms.get(departure.who.member_id or "")
            if joined is not None and joined[0] == departure.clock:
                departure.present_ms = departure.at_ms - joined[1]
            departure.had_left_for_now = departure.role == Role.EXPIRED and departure.who.instance_id in self._left_for_now
            departure.closed_before = [
                each for each in self._closed if each.clock == departure.clock and departure.at_ms - each.at_ms <= CLOSES_WITHIN_MS
            ]
            departure.unsaid = rebalance.unsaid.get(departure.who.member_id or "", frozenset())
            departure.went_with_all = len(rebalance.departures) > 1 and rebalance.after is _EMPTY
        if rebalance.client_items:
            attach_client_items(rebalance, self._known)
            if not rebalance.parts:
                add_client_arrivals(rebalance, self._known)
        self._closed = [*self._closed, *(each for each in rebalance.departures if each.role == Role.LEFT)][-CLOSED_MAX:]
        self._left_for_now -= {arrival.who.instance_id or "" for arrival in rebalance.arrivals}
        self._count_members(rebalance)
        for departure in rebalance.departures:
            self._measure(departure, rebalance)
        self._advance(rebalance)

    def _replace_static(self, rebalance: Round) -> None:
        """A static member that came back without a rebalance has another member id from now on; its old one did not go."""
        for item in rebalance.of_kind(Kind.STATIC_REPLACED):
            self._left_for_now.discard(item.instance_id or "")
            if self._membership is None or item.instance_id is None or not item.member_id:
                continue
            members = {
                item.member_id if member.instance_id == item.instance_id else member_id: member
                for member_id, member in self._membership.members.items()
            }
            if item.member_id in members:
                members[item.member_id] = replace(members[item.member_id], member_id=item.member_id)
                self._membership = self._membership._replace(members=members)

    def _read_context(self, rebalance: Round) -> None:
        for part in rebalance.parts:
            self._commits.add(part.clock, part.commits)
        rebalance.commits = {partition: span for part in rebalance.parts for partition, span in part.commits.items()}
        if self._last is not None and rebalance.commits and not rebalance.is_avoided:
            self._last.commits_after = rebalance.commits
        self._last = self._last if rebalance.is_avoided else rebalance
        for item in rebalance.context:
            if item.kind in (Kind.LOADED, Kind.UNLOADED) and item.clock == rebalance.clock:
                self._moved = item.clock, item.at_ms
            if item.kind is Kind.MEMBER_LEFT and item.instance_id is not None:
                self._left_for_now.add(item.instance_id)
            if item.kind is Kind.DELETED:
                self._set(_EMPTY)
                self._count = 0
            elif item.kind in (Kind.LOADED, Kind.OBSERVED) and item.members is not None and self._membership is None:
                self._set(_membership(item.members, item.protocol, item.topics, has_assignments=True))
                self._count = len(item.members)
        rebalance.since_move_ms = _since_ms(self._moved, rebalance)
        rebalance.since_outage_ms = _since_ms(self._outage, rebalance)

    def _add_unsaid(self, rebalance: Round, before: Membership, after: Membership) -> None:
        """Members that the lists show to have come or gone, and that no source names."""
        self._explained.update(departure.who.member_id or "" for departure in rebalance.departures)
        self._explained.update(arrival.who.member_id or "" for arrival in rebalance.arrivals)
        instances = {member.instance_id for member in after.members.values() if member.instance_id is not None}
        kept = {member.instance_id for member in before.members.values() if member.instance_id is not None} & instances
        at_ms, clock = _end(rebalance)
        for member_id, member in before.members.items():
            if member_id not in after.members and member_id not in self._explained and member.instance_id not in kept:
                rebalance.departures.append(Departure(who=of_member(member), at_ms=at_ms, clock=clock))
        for member_id, member in after.members.items():
            if member_id not in before.members and member_id not in self._explained and member.instance_id not in kept:
                rebalance.arrivals.append(Arrival(who=of_member(member), at_ms=at_ms, clock=clock))

    def _count_members(self, rebalance: Round) -> None:
        rebalance.count_after = len(rebalance.after.members) if rebalance.after is not None else _count_said(rebalance)
        is_first = rebalance.main is None and rebalance.generation == 1
        is_first = is_first or (
            rebalance.main is not None and (rebalance.main.old_generation == 0 or _is_first_epoch(rebalance.main, rebalance))
        )
        all_are_new = rebalance.count_after is not None and 0 < rebalance.count_after == len(
            {arrival.who for arrival in rebalance.arrivals}
        )
        if rebalance.count_before is None and (is_first or (all_are_new and not rebalance.departures)):
            rebalance.count_before = 0
        if rebalance.count_before is None and rebalance.count_after is not None and rebalance.main is not None:
            rebalance.count_before = (
                rebalance.count_after + len(rebalance.departures) - len(rebalance.arrivals)
                if rebalance.departures or rebalance.arrivals
                else None
            )

    def _measure(self, departure: Departure, rebalance: Round) -> None:
        """Timeouts, partitions and commits of a member that is gone, from the last membership that lists it."""
        member = None if self._membership is None else self._membership.members.get(departure.who.member_id or "")
        if member is None:
            return
        # The admin API does not know the timeouts: they are -1 there.
        departure.session_timeout_ms = departure.session_timeout_ms or max(0, member.session_timeout_ms) or None
        departure.rebalance_timeout_ms = departure.rebalance_timeout_ms or max(0, member.rebalance_timeout_ms) or None
        partitions = [TopicPartition(topic, number) for topic, numbers in member.assignment.items() for number in numbers]
        departure.partition_count = len(partitions)
        at_ms = next((part.started_ms for part in rebalance.parts if part.clock == self._commits.clock), None)
        gap = None if at_ms is None else self._commits.gap_ms(partitions, at_ms)
        if gap is not None:
            departure.commit_gap_ms, departure.commit_interval_ms = gap

    def _advance(self, rebalance: Round) -> None:
        self._joined_ms = {arrival.who.member_id or "": (arrival.clock, arrival.at_ms) for arrival in rebalance.arrivals}
        starts_cold = rebalance.count_before == 0 and bool(rebalance.arrivals)
        if starts_cold:
            self._cold_start = (rebalance.clock, rebalance.started_ms if rebalance.ended_ms is None else rebalance.ended_ms)
        if self._cold_start is not None and self._cold_start[0] == rebalance.clock:
            rebalance.since_cold_start_ms = max(0, rebalance.started_ms - self._cold_start[1])
        if rebalance.generation is not None and self._generation is not None and rebalance.parts:
            rebalance.skipped = max(0, rebalance.parts[0].generations[0] - self._generation - 1) if rebalance.parts[0].generations else 0
        self._generation = rebalance.generation if rebalance.generation is not None else self._generation
        if rebalance.after is not None:
            self._set(rebalance.after)
        elif rebalance.departures or rebalance.arrivals:
            self._explained.update(departure.who.member_id or "" for departure in rebalance.departures)
            self._explained.update(arrival.who.member_id or "" for arrival in rebalance.arrivals)
        self._count = rebalance.count_after
        rebalance.protocol_after = _protocol_after(rebalance)
        self._protocol = None if rebalance.count_after == 0 else rebalance.protocol_after or self._protocol
        ended_ms = rebalance.ended_ms
        if ended_ms is None and rebalance.main is not None:  # a generation was formed whose assignment was never stored
            ended_ms = rebalance.main.formed_ms
        if ended_ms is not None:
            is_change = bool(rebalance.departures or rebalance.arrivals)
            self._previous = Previous(
                rebalance.clock, ended_ms, is_change, starts_cold, rebalance.count_after, topics_resubscribed(rebalance)
            )

    def _set(self, membership: Membership) -> None:
        self._membership = membership
        self._explained.clear()


def _membership(
    members: Sequence[EventMember], protocol: str | None, topics: frozenset[str] | None, *, has_assignments: bool
) -> Membership:
    return Membership({member.member_id: member for member in members}, protocol, topics, has_assignments)


def _membership_after(rebalance: Round) -> Membership | None:
    """The members that the best source lists at the end of the round."""
    if any(part.items[-1].kind is Kind.EMPTIED for part in rebalance.parts):
        return _EMPTY
    for kind in _LISTS_MEMBERS:
        for part in rebalance.parts:
            for item in reversed(part.items):
                if item.kind is not kind:
                    continue
                if item.members is not None:
                    has_assignments = kind is Kind.SYNC_COMPLETED
                    return _membership(item.members, item.protocol, item.topics, has_assignments=has_assignments)
    return None


def _protocol_after(rebalance: Round) -> str | None:
    """The assignor of the round's generation: that of the list of its members, or the one that a client says it joined with."""
    if rebalance.after is not None and rebalance.after.protocol is not None:
        return rebalance.after.protocol
    joined = (item for item in rebalance.client_items if item.kind is Kind.CLIENT_JOINED and item.generation == rebalance.generation)
    return next((item.protocol for item in joined if item.protocol), None)


def _count_said(rebalance: Round) -> int | None:
    """The number of members, as a source says that does not list them."""
    counts = [item.member_count for item in rebalance.of_kind(Kind.SYNC_COMPLETED, Kind.JOIN_COMPLETED) if item.member_count is not None]
    if counts:
        return counts[-1]
    return 0 if any(part.is_emptied for part in rebalance.parts) else None


def _is_first_generation(rebalance: Round) -> bool:
    """Whether it is the first of a classic group, by its number: the very first ones are often superseded while members start."""
    generations = rebalance.parts[0].generations[:1] if rebalance.parts else []
    is_low = bool(generations) and 1 <= generations[0] <= EARLY_GENERATION
    return is_low and rebalance.parts[0].old_generation in (None, 0) and not rebalance.is_consumer_type


def _is_first_epoch(part: Part, rebalance: Round) -> bool:
    """Whether the first members of a KIP-848 group make its first epochs: Apache Kafka 4.3 begins with 2."""
    return rebalance.is_consumer_type and bool(part.generations) and part.generations[0] <= FIRST_EPOCH and bool(rebalance.arrivals)


def _since_ms(before: tuple[str, int] | None, rebalance: Round) -> int | None:
    """How long before the round something was, by the round's clock."""
    if before is None or before[0] != rebalance.clock or before[1] > rebalance.started_ms:
        return None
    return rebalance.started_ms - before[1]


def _end(rebalance: Round) -> tuple[int, str]:
    """When a membership that only a list shows was listed, and by which clock."""
    part = next((part for part in rebalance.parts if any(item.members is not None for item in part.items)), None)
    return (rebalance.started_ms, rebalance.clock) if part is None else (part.started_ms, part.clock)
