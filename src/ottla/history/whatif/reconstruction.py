"""From evidence to behaviour: what the members of a group did by themselves, as far as the sources show it.

It reads rounds, in which members that went are paired with those that came back, and takes the likeliest cause of each departure: a
silence, a poll gap, a restart, an end. What is assumed is said in `notes`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.groups.assignors import assignors, coordinator_assignors
from ottla.groups.events import EventMember
from ottla.groups.settings import GroupSettings
from ottla.history.processes import Identity, Processes, of_evidence, of_member
from ottla.history.rounds.assembly import assemble
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.rounds.splitting import Part
from ottla.history.sources.evidence import Cause, Evidence, Kind
from ottla.history.verdicts.judging import judge_departure, judge_rounds
from ottla.history.whatif.behaviour import BEFORE_MS, Action, ActionKind, GroupBehaviour, LeaderRejoin, Process, Reaction
from ottla.history.whatif.settings import RECORDED_DEFAULTS, Settings

SYNC_MS_MAX: Final = 5_000
"""A leader that took longer did not assign all that time: it was slow or gone."""
USUAL_DELAYS_MS: Final = (0, 3_000)
"""Values of group.initial.rebalance.delay.ms to try first: Ottla's default, and Kafka's."""
TOLERANCE_MS: Final = 250

PartitionCounts = tuple[int, Mapping[str, int]]


def partition_timeline(rounds: Sequence[Round]) -> tuple[PartitionCounts, ...]:
    """The partitions of each topic, from the start of each rebalance on whose assignment shows others than before.

    Partitions are never taken away while a topic exists, and a cooperative assignment leaves out those that are being revoked.
    """
    found: list[PartitionCounts] = []
    known: dict[str, int] = {}
    for each in rounds:
        if each.is_avoided or each.after is None or not each.after.has_assignments or not each.after.members:
            continue
        assigned: dict[str, set[int]] = {}
        for member in each.after.members.values():
            for topic, numbers in member.assignment.items():
                assigned.setdefault(topic, set()).update(numbers)
        # Counted, not read off the largest number: a damaged record may hold any.
        counts = {topic: max(len(numbers), known.get(topic, 0)) for topic, numbers in assigned.items()}
        is_deletion = each.is_consumer_type and any(item.trigger == Cause.TOPIC_CHANGE for item in each.items)
        # Records of consumer groups have topic ids, whose names a source learns later.
        is_renamed = each.is_consumer_type and sorted(counts.values()) == sorted(known.values())
        if (counts or is_deletion) and counts != known and not is_renamed:
            found.append((each.started_ms, counts))
            known = counts
    return tuple(found)


def reactions(rounds: Sequence[Round], heartbeat_ms: int) -> tuple[Reaction, ...]:
    """How fast each rebalance was; slower than a heartbeat interval is due to single members, not to the group.

    The first members of a group wait for the initial rebalance delay: for them it is as fast as in the rebalance that follows. A source
    that shows only when rebalances ended (the offsets topic) leaves it open: half a heartbeat interval, and no longer than to the next.
    """
    found: list[Reaction] = []
    usual_ms = join_ms = heartbeat_ms // 2
    next_ms: int | None = None
    for each in sorted(rounds, key=_started_ms, reverse=True):
        part = each.main
        if each.is_avoided or part is None:
            continue
        if part.formed_ms is None:
            join_ms = usual_ms if next_ms is None else min(usual_ms, (next_ms - each.started_ms) // 2)
        elif each.count_before:
            join_ms = max(0, min(part.formed_ms - each.started_ms, heartbeat_ms))
        found.append(Reaction(each.started_ms, join_ms, _sync_ms(part)))
        next_ms = each.started_ms
    return tuple(reversed(found))


def initial_delay_ms(rounds: Sequence[Round]) -> int:
    """The group.initial.rebalance.delay.ms that explains how long the first rebalances of the empty group took; 0 if there is none."""
    starts = [each for each in rounds if not each.is_avoided and each.count_before == 0 and each.arrivals]
    for each in starts:
        part = each.main
        if part is not None:
            return _delay_of(part) if part.formed_ms is not None else int(len(each.arrivals) > 1)
    return 0


def _delay_of(part: Part) -> int:
    took_ms = (part.formed_ms or part.started_ms) - part.started_ms
    arrivals = [item.at_ms - part.started_ms for item in part.of_kind(Kind.TRIGGER, Kind.MEMBER_JOINED)]
    guesses = [*USUAL_DELAYS_MS, *(took_ms // times for times in (1, 2, 3, 4))]
    for delay_ms in guesses:
        end_ms = _join_phase_ms(delay_ms, arrivals)
        if abs(end_ms - took_ms) <= TOLERANCE_MS and end_ms >= max(arrivals, default=0) and (delay_ms or len(arrivals) < 2):
            return delay_ms
    # Members that joined in the same millisecond joined before the first rebalance was over.
    return max(took_ms, 1)


def _join_phase_ms(delay_ms: int, arrivals: Sequence[int]) -> int:
    """How long the first join phase takes: another delay for each one in which members joined."""
    end_ms = delay_ms
    while delay_ms and any(end_ms - delay_ms < at_ms <= end_ms for at_ms in _later(arrivals)):
        end_ms += delay_ms
    return end_ms


def _later(arrivals: Sequence[int]) -> Iterator[int]:
    """All arrivals but the first, which began the delay."""
    return (at_ms for at_ms in arrivals if at_ms > 0)


def _sync_ms(part: Part) -> int:
    ended_ms = part.ended_ms
    return 0 if ended_ms is None or part.formed_ms is None else max(0, min(ended_ms - part.formed_ms, SYNC_MS_MAX))


def _started_ms(each: Round) -> int:
    return each.started_ms


@dataclass(slots=True, eq=False)
class History:
    """One process over all its member ids. Timeouts are None where no source says them."""

    who: Identity
    actions: list[Action] = field(default_factory=list)
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    @property
    def started_ms(self) -> int:
        """When it last started: it cannot have stopped to poll before."""
        return next((action.at_ms for action in reversed(self.actions) if action.kind is ActionKind.START), 0)

    def add(self, *actions: Action) -> None:
        """Add what it did; sources may report it in another order."""
        self.actions += actions
        self.actions.sort(key=_at_ms)

    def process(self, name: str, *, session_timeout_ms: int, rebalance_timeout_ms: int, topics: frozenset[str]) -> Process:
        """The process, with these timeouts where its own are not known."""
        return Process(
            name=name,
            client_id=self.who.client_id or name,
            client_host=self.who.client_host or "",
            instance_id=self.who.instance_id,
            session_timeout_ms=self.session_timeout_ms or session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms or rebalance_timeout_ms,
            topics=topics,
            actions=tuple(self.actions),
        )


class Histories:
    """What each process of a group did. Which members are one process, `processes` say, and rounds where a member came back as another."""

    def __init__(self, processes: Processes) -> None:
        self.all: list[History] = []
        self._processes = processes
        self._by_row: dict[int, History] = {}
        self._by_member_id: dict[str, History] = {}
        """Of members that have joined, or are known to have come back."""

    def of(self, who: Identity) -> History | None:
        """The process of this member; None where it has not joined yet."""
        row = self._processes.find(who)
        return self._by_member_id.get(who.member_id or "") or (None if row is None else self._by_row.get(row))

    def has(self, member_id: str | None) -> bool:
        """Whether a process has or had this member id."""
        return member_id in self._by_member_id

    def start(self, who: Identity, at_ms: int) -> History:
        """A process that joins: one that is known, or a new one."""
        row = self._processes.find(who)
        history = None if row is None else self._by_row.get(row)
        if history is None:
            history = History(who)
            self.all.append(history)
        if row is not None:
            self._by_row[row] = history
        history.add(Action(at_ms=at_ms, kind=ActionKind.START))
        self.rename(history, who)
        return history

    def rename(self, history: History, who: Identity) -> None:
        """The process has this member id from now on."""
        if who.member_id is not None:
            self._by_member_id[who.member_id] = history

    def merge(self, first: History, second: History) -> None:
        """Both are one process: what the second did belongs to the first."""
        if first is second:
            return
        first.add(*second.actions)
        self.all.remove(second)
        self._by_member_id = {member_id: first if each is second else each for member_id, each in self._by_member_id.items()}
        self._by_row = {row: first if each is second else each for row, each in self._by_row.items()}

    def learn(self, member: EventMember) -> None:
        """Remember the timeouts of a member that a source lists."""
        history = self._by_member_id.get(member.member_id)
        if history is not None:
            # -1 where a source does not know them.
            history.session_timeout_ms = max(0, member.session_timeout_ms) or history.session_timeout_ms
            history.rebalance_timeout_ms = max(0, member.rebalance_timeout_ms) or history.rebalance_timeout_ms

    def named(self) -> Iterator[tuple[str, History]]:
        """Each process with a name that no other has: its instance id or client id, numbered where several share it."""
        counts: dict[str, int] = {}
        used: set[str] = set()
        for history in self.all:
            label = name = history.who.label
            while name in used:
                counts[label] = counts.get(label, 1) + 1
                name = f"{label}#{counts[label]}"
            used.add(name)
            yield name, history


def _at_ms(action: Action) -> int:
    return action.at_ms


SESSION_MS, POLL_MS = 45_000, 300_000
"""Defaults of the clients, where no source shows a member's timeouts."""
SESSION_DEFAULTS_MS: Final = (SESSION_MS, 30_000, 10_000, 6_000)
A = ActionKind
POLL_CAUSES: Final = frozenset({Cause.POLL_TIMEOUT, Cause.JOIN_TIMEOUT})
SILENT_CAUSES: Final = frozenset({Cause.EXPIRE_HEARTBEAT})
REASONABLE: Final = frozenset({Cause.RESTART_DYNAMIC, Cause.POLL_TIMEOUT})
CONSEQUENCES: Final = frozenset({Cause.LEADER_REJOIN_SPURIOUS, Cause.TOPIC_CHANGE, Cause.UNKNOWN})
"""Causes of a member that joins again soon after a rebalance because of it: some clients do so, and a new leader looks at topics anew."""
SOON_MS: Final = 5_000


def reconstruct(
    group: str, evidence: Iterable[Evidence], recorded: Settings = RECORDED_DEFAULTS, *, since_ms: int | None = None
) -> GroupBehaviour:
    """The behaviour of `group`; all evidence is of this group. Raises ValueError where there is nothing to replay.

    What is older than `since_ms` says who was there then, and with which settings.
    """
    items = list(evidence)
    assembly = assemble(group, items)
    rounds = [each for each in assembly.rounds if each.parts]
    if not rounds:
        raise ValueError(f"the evidence shows no rebalance of the group {group!r}")
    behaviour = _Walk(rounds, assembly.processes, recorded).behaviour(
        group, ended_ms=max(item.at_ms for item in items if item.clock == rounds[0].clock)
    )
    if since_ms is None:
        return behaviour
    if since_ms > rounds[-1].started_ms:
        raise ValueError(f"the evidence shows no rebalance of the group {group!r} since then")
    return behaviour.since(since_ms)


class _Walk:
    """Reads the rounds once, in their order."""

    def __init__(self, rounds: Sequence[Round], processes: Processes, recorded: Settings) -> None:
        self._rounds = rounds
        self._recorded = recorded
        self._histories = Histories(processes)
        self._leader_rejoins: list[LeaderRejoin] = []
        self._causes = {id(each): verdict.cause for each, verdict in zip(rounds, judge_rounds(rounds), strict=True)}
        self._notes: Counter[str] = Counter()
        self._started_ms = rounds[0].started_ms
        self._protocol: str | None = None
        self._waited_ms: int | None = None

    def behaviour(self, group: str, *, ended_ms: int) -> GroupBehaviour:
        """All that was read."""
        for each in self._rounds:
            if each.is_avoided:
                self._take_avoided(each)
            else:
                self._take(each)
        self._add_nameless()
        counts = partition_timeline(self._rounds)
        topics = frozenset(topic for _, by_topic in counts for topic in by_topic)
        session_ms = self._recorded.session_timeout_ms or SESSION_MS
        poll_ms = self._recorded.max_poll_interval_ms or self._waited_ms or POLL_MS
        histories = list(self._histories.named())
        is_consumer_type = self._rounds[-1].is_consumer_type
        if is_consumer_type:
            # The session timeout is the group's.
            session_ms = max((history.session_timeout_ms for _, history in histories if history.session_timeout_ms), default=session_ms)
        if any(history.session_timeout_ms is None for _, history in histories):
            self._notes[
                f"session.timeout.ms={session_ms} and max.poll.interval.ms={poll_ms} are assumed for members whose timeouts no source shows"
            ] += 1
        if not counts:
            self._notes["no source shows assignments, so moves and stopped partitions are not known"] += 1
        if self._protocol is None:
            self._notes["no source names the assignor: range is assumed"] += 1
        elif self._protocol not in assignors():
            self._notes[f"the assignor {self._protocol} is not known: range stands in for it, so moves differ"] += 1
            self._protocol = None
        if any(each.is_consumer_type is not is_consumer_type for each in self._rounds):
            self._notes[
                f"the group changed its protocol: all of it is replayed as a {'consumer' if is_consumer_type else 'classic'} group"
            ] += 1
        assumed = "uniform" if is_consumer_type else "range"
        if is_consumer_type and self._protocol not in coordinator_assignors():
            self._protocol = None
        return GroupBehaviour(
            group=group,
            is_consumer_type=is_consumer_type,
            heartbeat_interval_ms=self._consumer_heartbeat_ms(),
            started_ms=self._started_ms,
            ended_ms=ended_ms,
            protocol=self._protocol or assumed,
            processes=tuple(
                history.process(name, session_timeout_ms=session_ms, rebalance_timeout_ms=poll_ms, topics=topics)
                for name, history in histories
            ),
            partition_counts=counts,
            leader_rejoins=tuple(self._leader_rejoins),
            reactions=reactions(self._rounds, self._recorded.heartbeat_interval_ms or 0),
            initial_rebalance_delay_ms=_given(self._recorded.initial_rebalance_delay_ms, initial_delay_ms(self._rounds)),
            recorded_ms=tuple(
                each.started_ms for each in self._rounds if not each.is_avoided and self._causes[id(each)] is not Cause.COOP_FOLLOWUP
            ),
            notes=tuple(note if count == 1 else f"{note} ({count} times)" for note, count in self._notes.items()),
        )

    def _consumer_heartbeat_ms(self) -> int:
        """No evidence shows the interval of a consumer group; what is assumed of a classic member is not meant for it."""
        given_ms = self._recorded.heartbeat_interval_ms
        is_given = given_ms is not None and given_ms != RECORDED_DEFAULTS.heartbeat_interval_ms
        return given_ms if is_given and given_ms is not None else GroupSettings().consumer_heartbeat_interval_ms

    def _add_nameless(self) -> None:
        """Members that were there when the evidence began, and of which the sources show only that they were counted."""
        before_ms = self._started_ms - BEFORE_MS
        known = sum(bool(history.actions) and history.actions[0].at_ms == before_ms for history in self._histories.all)
        first = next((each.count_before for each in self._rounds if not each.is_avoided), None) or 0
        for number in range(known, first):
            self._histories.start(Identity(client_id=f"member {number + 1}"), before_ms)

    def _take(self, each: Round) -> None:
        self._learn(each)
        departed: list[History] = []
        for departure in each.departures:
            history = self._member(departure)
            # A static member may be listed with its member id of before a restart too.
            if history not in departed:
                departed.append(history)
                self._depart(each, departure, history)
        for arrival in each.arrivals:
            self._arrive(arrival)
        if not each.departures and not each.arrivals:
            self._change(each)
        if each.after is not None:
            self._protocol = each.after.protocol or self._protocol
            self._learn(each)

    def _learn(self, each: Round) -> None:
        """Members that are listed and never joined were there before the evidence begins."""
        arriving = {arrival.who.member_id for arrival in each.arrivals}
        for membership in (each.before, each.after):
            for member in () if membership is None else membership.members.values():
                if member.member_id not in arriving and self._histories.of(of_member(member)) is None:
                    self._histories.start(of_member(member), self._started_ms - BEFORE_MS)
                self._histories.learn(member)

    def _arrive(self, arrival: Arrival) -> None:
        """A member that joined; one that came back was read with its departure."""
        if not self._histories.has(arrival.who.member_id):
            self._histories.start(arrival.who, arrival.at_ms)

    def _member(self, departure: Departure) -> History:
        history = self._histories.of(departure.who)
        if history is None:
            history = self._histories.start(departure.who, self._started_ms - BEFORE_MS)
        history.session_timeout_ms = history.session_timeout_ms or departure.session_timeout_ms
        history.rebalance_timeout_ms = history.rebalance_timeout_ms or departure.rebalance_timeout_ms
        return history

    def _depart(self, each: Round, departure: Departure, history: History) -> None:
        returned = departure.returned
        if returned is not None and departure.is_replaced_before:
            self._replaced(departure, returned, history)
            return
        narrowed = judge_departure(departure)
        if set(narrowed.candidates) >= REASONABLE:
            self._notes[f"whether a member restarted or exceeded its poll interval is not certain: taken as {narrowed.cause}"] += 1
        self._add_actions(each, departure, narrowed.cause, history)
        if returned is not None:
            self._histories.rename(history, returned.who)

    def _add_actions(self, each: Round, departure: Departure, cause: Cause, history: History) -> None:
        at_ms, until_ms = departure.at_ms, departure.returned.at_ms if departure.returned is not None else None
        gap_ms = self._gap_start_ms(each, departure, cause, history)
        if cause in POLL_CAUSES and gap_ms >= history.started_ms:
            history.add(Action(at_ms=gap_ms, kind=A.POLL_GAP, until_ms=until_ms))
        elif cause in SILENT_CAUSES:
            from_ms, uncertain_ms = self._silence_start(departure, history)
            if until_ms is None:
                history.add(Action(at_ms=from_ms, kind=A.CRASH))
            else:
                history.add(Action(at_ms=from_ms, kind=A.SILENCE, until_ms=max(until_ms, from_ms), uncertain_ms=uncertain_ms))
        elif cause is Cause.ADMIN and until_ms is not None:
            history.add(Action(at_ms=at_ms, kind=A.REMOVAL, until_ms=until_ms))
        else:
            if departure.had_left_for_now:
                at_ms, _ = self._silence_start(departure, history)
            history.add(Action(at_ms=at_ms, kind=A.CLOSE))
            if until_ms is not None:
                history.add(Action(at_ms=max(until_ms, at_ms), kind=A.START))

    def _gap_start_ms(self, each: Round, departure: Departure, cause: Cause, history: History) -> int:
        if cause is Cause.JOIN_TIMEOUT and departure.is_consumer_type:
            # It was asked to give up partitions in a rebalance before, and had a whole rebalance timeout for it.
            asked_ms = departure.at_ms - (history.rebalance_timeout_ms or self._recorded.max_poll_interval_ms or POLL_MS)
            earlier = (other.started_ms for other in self._rounds if asked_ms - SOON_MS <= other.started_ms <= asked_ms)
            return max(earlier, default=asked_ms) + 1
        if cause is Cause.JOIN_TIMEOUT:
            if history.rebalance_timeout_ms is None:
                # The coordinator waited so long: the longest rebalance timeout of the group.
                self._waited_ms = departure.at_ms - each.started_ms
            # It had polled when the rebalance began, or a little later: its own poll interval had not ended when the join phase did.
            return each.started_ms + 1
        return departure.at_ms - (history.rebalance_timeout_ms or self._recorded.max_poll_interval_ms or POLL_MS)

    def _silence_start(self, departure: Departure, history: History) -> tuple[int, int]:
        """When the last heartbeat came, and how much earlier that may have been."""
        age_ms = departure.figures.get("last_heartbeat_age_ms")
        if age_ms is not None:
            return departure.at_ms - age_ms, 0
        if history.session_timeout_ms is None and self._recorded.session_timeout_ms is None:
            # The longest default of any client's release that fits into the member's life.
            lived_ms = departure.at_ms - history.started_ms
            history.session_timeout_ms = next((each for each in SESSION_DEFAULTS_MS if each < lived_ms), max(lived_ms - 1, 1))
            self._notes[f"session.timeout.ms={history.session_timeout_ms} is assumed for a member whose session ended"] += 1
        session_ms = history.session_timeout_ms or self._recorded.session_timeout_ms or SESSION_MS
        return departure.at_ms - session_ms, max(0, (departure.commit_gap_ms or session_ms) - session_ms)

    def _replaced(self, departure: Departure, returned: Arrival, history: History) -> None:
        """A process that was killed and started again before its old member id was removed."""
        successor = self._histories.of(returned.who) or self._histories.start(returned.who, returned.at_ms)
        from_ms, _ = self._silence_start(departure, history)
        history.add(Action(at_ms=min(from_ms, returned.at_ms - 1), kind=A.CRASH))
        self._histories.merge(history, successor)

    def _change(self, each: Round) -> None:
        """No member came or went: the leader or another member joined again. Second halves are left to the members that are replayed."""
        cause = self._causes[id(each)]
        if cause is Cause.COOP_FOLLOWUP:
            return
        trigger = next((item for item in each.items if item.kind is Kind.TRIGGER and item.member_id), None)
        history = None if trigger is None else self._histories.of(of_evidence(trigger))
        is_leader = trigger is None or trigger.member_id == trigger.leader or (trigger.reason or "").startswith("Leader ")
        if history is None or is_leader:
            self._leader_rejoins.append(LeaderRejoin(each.started_ms, cause, self._followed_ms(each)))
        else:
            history.add(Action(at_ms=each.started_ms, kind=A.RESUBSCRIBE, cause=cause, follows_ms=self._followed_ms(each)))

    def _followed_ms(self, each: Round) -> int | None:
        """When the rebalance began of which this one is a consequence; None where it has a cause of its own."""
        if self._causes[id(each)] not in CONSEQUENCES or _has_other_partitions(each):
            return None
        before = [other for other in self._rounds[: self._rounds.index(each)] if not other.is_avoided]
        ended_ms = before[-1].ended_ms if before else None
        is_soon = ended_ms is not None and before[-1].clock == each.clock and each.started_ms - ended_ms <= SOON_MS
        return before[-1].started_ms if is_soon else None

    def _take_avoided(self, each: Round) -> None:
        """A static member that came back: it had stopped when its last heartbeat came."""
        item = each.parts[0].items[0]
        history = self._histories.of(of_evidence(item))
        if item.kind is not Kind.STATIC_REPLACED:
            what = (
                "was refused, since another one had its instance id"
                if item.kind is Kind.JOIN_REFUSED
                else "used the instance id of a member"
            )
            self._notes[f"a second process {what}: not replayed"] += 1
            return
        if history is None:
            history = self._histories.start(of_evidence(item), self._started_ms - BEFORE_MS)
        away_ms = item.evidence.get("last_heartbeat_age_ms", 1)
        history.add(Action(at_ms=item.at_ms - max(away_ms, 1), kind=A.CLOSE), Action(at_ms=item.at_ms, kind=A.START))
        self._histories.rename(history, of_evidence(item))


def _has_other_partitions(each: Round) -> bool:
    """Whether it divides other partitions than the one before, as far as sources show: where they do not, that may be."""
    if each.before is None or each.after is None or not (each.before.has_assignments and each.after.has_assignments):
        return True
    before, after = (
        {(topic, number) for member in side.members.values() for topic, numbers in member.assignment.items() for number in numbers}
        for side in (each.before, each.after)
    )
    return before != after


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
