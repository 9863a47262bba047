"""Walks a group's rounds in their order: who was a member before and after, who came, who went, and when their partitions committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.groups.events import EventMember
from ottla.history.rounds.changes import add_client_arrivals, attach_client_items, read_changes
from ottla.history.rounds.identity import KnownMembers, of_member
from ottla.history.rounds.round import Arrival, Departure, Membership, Previous, Round
from ottla.history.rounds.splitting import Part
from ottla.history.rounds.subscriptions import topics_resubscribed
from ottla.history.sources.model import CommitSpan, Kind
from ottla.protocol.model import TopicPartition


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


FIRST_EPOCH: Final = 2
EARLY_GENERATION: Final = 3
_EMPTY: Final = Membership({}, None, None, True)
_LISTS_MEMBERS: Final = (Kind.SYNC_COMPLETED, Kind.JOIN_COMPLETED, Kind.EMPTIED)


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
        self._generation: int | None = None
        self._protocol: str | None = None

    def take(self, each: Round) -> None:
        """Fill in one round, the next in order."""
        self._read_context(each)
        if each.is_avoided:
            self._replace_static(each)
            each.before = each.after = self._membership
            return
        each.before, each.count_before, each.previous = self._membership, self._count, self._previous
        each.protocol_before = self._protocol
        read_changes(each, self._known)
        each.after = _membership_after(each)
        if self._membership is None and each.after is not None and _is_first_generation(each):
            self._set(_EMPTY)
            self._count = each.count_before = 0
            each.before = _EMPTY
        if each.after is not None and self._membership is not None:
            self._add_unsaid(each, self._membership, each.after)
        for departure in each.departures:
            is_default = departure.who.has_default_name
            departure.is_with_others = any(is_default or not arrival.who.is_same_client(departure.who) for arrival in each.arrivals)
            joined = self._joined_ms.get(departure.who.member_id or "")
            if joined is not None and joined[0] == departure.clock:
                departure.present_ms = departure.at_ms - joined[1]
            departure.went_with_all = len(each.departures) > 1 and each.after is _EMPTY
        if each.client_items:
            attach_client_items(each, self._known)
            if not each.parts:
                add_client_arrivals(each, self._known)
        self._count_members(each)
        for departure in each.departures:
            self._measure(departure, each)
        self._advance(each)

    def _replace_static(self, each: Round) -> None:
        """A static member that came back without a rebalance has another member id from now on; its old one did not go."""
        for item in each.of_kind(Kind.STATIC_REPLACED):
            if self._membership is None or item.instance_id is None or not item.member_id:
                continue
            members = {
                item.member_id if member.instance_id == item.instance_id else member_id: member
                for member_id, member in self._membership.members.items()
            }
            if item.member_id in members:
                members[item.member_id] = replace(members[item.member_id], member_id=item.member_id)
                self._membership = self._membership._replace(members=members)

    def _read_context(self, each: Round) -> None:
        for part in each.parts:
            self._commits.add(part.clock, part.commits)
        each.commits = {partition: span for part in each.parts for partition, span in part.commits.items()}
        if self._last is not None and each.commits and not each.is_avoided:
            self._last.commits_after = each.commits
        self._last = self._last if each.is_avoided else each
        for item in each.context:
            if item.kind in (Kind.LOADED, Kind.UNLOADED) and item.clock == each.clock:
                self._moved = item.clock, item.at_ms
            if item.kind is Kind.DELETED:
                self._set(_EMPTY)
                self._count = 0
            elif item.kind in (Kind.LOADED, Kind.OBSERVED) and item.members is not None and self._membership is None:
                self._set(_membership(item.members, item.protocol, item.topics, has_assignments=True))
                self._count = len(item.members)
        if self._moved is not None and self._moved[0] == each.clock and self._moved[1] <= each.started_ms:
            each.since_move_ms = each.started_ms - self._moved[1]

    def _add_unsaid(self, each: Round, before: Membership, after: Membership) -> None:
        """Members that the lists show to have come or gone, and that no source names."""
        self._explained.update(departure.who.member_id or "" for departure in each.departures)
        self._explained.update(arrival.who.member_id or "" for arrival in each.arrivals)
        instances = {member.instance_id for member in after.members.values() if member.instance_id is not None}
        kept = {member.instance_id for member in before.members.values() if member.instance_id is not None} & instances
        at_ms, clock = _end(each)
        for member_id, member in before.members.items():
            if member_id not in after.members and member_id not in self._explained and member.instance_id not in kept:
                each.departures.append(Departure(who=of_member(member), at_ms=at_ms, clock=clock))
        for member_id, member in after.members.items():
            if member_id not in before.members and member_id not in self._explained and member.instance_id not in kept:
                each.arrivals.append(Arrival(who=of_member(member), at_ms=at_ms, clock=clock))

    def _count_members(self, each: Round) -> None:
        each.count_after = len(each.after.members) if each.after is not None else _count_said(each)
        is_first = each.main is None and each.generation == 1
        is_first = is_first or (each.main is not None and (each.main.old_generation == 0 or _is_first_epoch(each.main, each)))
        all_are_new = each.count_after is not None and 0 < each.count_after == len({arrival.who for arrival in each.arrivals})
        if each.count_before is None and (is_first or (all_are_new and not each.departures)):
            each.count_before = 0
        if each.count_before is None and each.count_after is not None and each.main is not None:
            each.count_before = each.count_after + len(each.departures) - len(each.arrivals) if each.departures or each.arrivals else None

    def _measure(self, departure: Departure, each: Round) -> None:
        """Timeouts, partitions and commits of a member that is gone, from the last membership that lists it."""
        member = None if self._membership is None else self._membership.members.get(departure.who.member_id or "")
        if member is None:
            return
        # The admin API does not know the timeouts: they are -1 there.
        departure.session_timeout_ms = departure.session_timeout_ms or max(0, member.session_timeout_ms) or None
        departure.rebalance_timeout_ms = departure.rebalance_timeout_ms or max(0, member.rebalance_timeout_ms) or None
        partitions = [TopicPartition(topic, number) for topic, numbers in member.assignment.items() for number in numbers]
        departure.partition_count = len(partitions)
        at_ms = next((part.started_ms for part in each.parts if part.clock == self._commits.clock), None)
        gap = None if at_ms is None else self._commits.gap_ms(partitions, at_ms)
        if gap is not None:
            departure.commit_gap_ms, departure.commit_interval_ms = gap

    def _advance(self, each: Round) -> None:
        self._joined_ms = {arrival.who.member_id or "": (arrival.clock, arrival.at_ms) for arrival in each.arrivals}
        starts_cold = each.count_before == 0 and bool(each.arrivals)
        if starts_cold:
            self._cold_start = (each.clock, each.started_ms if each.ended_ms is None else each.ended_ms)
        if self._cold_start is not None and self._cold_start[0] == each.clock:
            each.since_cold_start_ms = max(0, each.started_ms - self._cold_start[1])
        if each.generation is not None and self._generation is not None and each.parts:
            each.skipped = max(0, each.parts[0].generations[0] - self._generation - 1) if each.parts[0].generations else 0
        self._generation = each.generation if each.generation is not None else self._generation
        if each.after is not None:
            self._set(each.after)
        elif each.departures or each.arrivals:
            self._explained.update(departure.who.member_id or "" for departure in each.departures)
            self._explained.update(arrival.who.member_id or "" for arrival in each.arrivals)
        self._count = each.count_after
        each.protocol_after = _protocol_after(each)
        self._protocol = None if each.count_after == 0 else each.protocol_after or self._protocol
        ended_ms = _formed_ms(each) if each.ended_ms is None else each.ended_ms
        if ended_ms is not None:
            is_change = bool(each.departures or each.arrivals)
            self._previous = Previous(each.clock, ended_ms, is_change, starts_cold, each.count_after, topics_resubscribed(each))

    def _set(self, membership: Membership) -> None:
        self._membership = membership
        self._explained.clear()


def _membership(
    members: Sequence[EventMember], protocol: str | None, topics: frozenset[str] | None, *, has_assignments: bool
) -> Membership:
    return Membership({member.member_id: member for member in members}, protocol, topics, has_assignments)


def _membership_after(each: Round) -> Membership | None:
    """The members that the best source lists at the end of the round."""
    for kind in _LISTS_MEMBERS:
        for part in each.parts:
            for item in reversed(part.items):
                if item.kind is not kind:
                    continue
                if kind is Kind.EMPTIED:
                    return _EMPTY
                if item.members is not None:
                    has_assignments = kind is Kind.SYNC_COMPLETED
                    return _membership(item.members, item.protocol, item.topics, has_assignments=has_assignments)
    return None


def _protocol_after(each: Round) -> str | None:
    """The assignor of the round's generation: that of the list of its members, or the one that a client says it joined with."""
    if each.after is not None and each.after.protocol is not None:
        return each.after.protocol
    joined = (item for item in each.client_items if item.kind is Kind.CLIENT_JOINED and item.generation == each.generation)
    return next((item.protocol for item in joined if item.protocol), None)


def _formed_ms(each: Round) -> int | None:
    """When a generation was formed whose assignment was never stored."""
    return None if each.main is None else each.main.formed_ms


def _count_said(each: Round) -> int | None:
    """The number of members, as a source says that does not list them."""
    counts = [item.member_count for item in each.of_kind(Kind.SYNC_COMPLETED, Kind.JOIN_COMPLETED) if item.member_count is not None]
    if counts:
        return counts[-1]
    return 0 if any(part.is_emptied for part in each.parts) else None


def _is_first_generation(each: Round) -> bool:
    """Whether it is the first of a classic group, by its number: the very first ones are often superseded while members start."""
    generations = each.parts[0].generations[:1] if each.parts else []
    is_low = bool(generations) and 1 <= generations[0] <= EARLY_GENERATION
    return is_low and each.parts[0].old_generation in (None, 0) and not each.is_consumer_type


def _is_first_epoch(part: Part, each: Round) -> bool:
    """Whether the first members of a KIP-848 group make its first epochs: Apache Kafka 4.3 begins with 2."""
    return each.is_consumer_type and bool(part.generations) and part.generations[0] <= FIRST_EPOCH and bool(each.arrivals)


def _end(each: Round) -> tuple[int, str]:
    """When a membership that only a list shows was listed, and by which clock."""
    part = next((part for part in each.parts if any(item.members is not None for item in part.items)), None)
    return (each.started_ms, each.clock) if part is None else (part.started_ms, part.clock)
