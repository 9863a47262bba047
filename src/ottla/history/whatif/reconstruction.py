"""From evidence to behaviour: what the members of a group did by themselves, as far as the sources show it.

It reads the rounds of `diagnosis.rounds`, in which members that went are paired with those that came back, and takes the likeliest cause of
each departure: a silence, a poll gap, a restart, an end. What is assumed is said in `notes`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.core.assignors import assignors
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.model import Evidence, Kind
from ottla.core.diagnosis.rounds.assembly import rounds_of_group
from ottla.core.diagnosis.rounds.identity import Identity, of_evidence, of_member
from ottla.core.diagnosis.rounds.round import Arrival, Departure, Round
from ottla.core.diagnosis.verdicts.judging import judge_departure, judge_rounds
from ottla.core.whatif.behaviour import Action, ActionKind, GroupBehaviour, LeaderRejoin
from ottla.core.whatif.histories import Histories, History
from ottla.core.whatif.settings import RECORDED_DEFAULTS, Settings
from ottla.core.whatif.timelines import initial_delay_ms, partition_timeline, reactions

BEFORE_MS: Final = 60_000
"""How long before the evidence the members start that were there when it begins."""
SESSION_MS, POLL_MS = 45_000, 300_000
"""Defaults of the clients, where no source shows a member's timeouts."""
SESSION_DEFAULTS_MS: Final = (SESSION_MS, 30_000, 10_000, 6_000)
A = ActionKind
POLL_CAUSES: Final = frozenset({Cause.POLL_TIMEOUT, Cause.JOIN_TIMEOUT})
SILENT_CAUSES: Final = frozenset({Cause.EXPIRE_HEARTBEAT})
REASONABLE: Final = frozenset({Cause.RESTART_DYNAMIC, Cause.POLL_TIMEOUT})


def reconstruct(group: str, evidence: Iterable[Evidence], recorded: Settings = RECORDED_DEFAULTS) -> GroupBehaviour:
    """The behaviour of `group`; all evidence is of this group. Raises ValueError where there is nothing to replay."""
    items = list(evidence)
    rounds = [each for each in rounds_of_group(group, items) if each.parts]
    if not rounds:
        raise ValueError(f"the evidence shows no rebalance of the group {group!r}")
    if any(each.is_consumer_type for each in rounds):
        raise ValueError(f"the group {group!r} uses the protocol of KIP-848, which a what-if does not replay")
    return _Walk(rounds, recorded).behaviour(group, ended_ms=max(item.at_ms for item in items if item.clock == rounds[0].clock))


class _Walk:
    """Reads the rounds once, in their order."""

    def __init__(self, rounds: Sequence[Round], recorded: Settings) -> None:
        self._rounds = rounds
        self._recorded = recorded
        self._histories = Histories()
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
        return GroupBehaviour(
            group=group,
            started_ms=self._started_ms,
            ended_ms=ended_ms,
            protocol=self._protocol or "range",
            processes=tuple(
                history.process(name, session_timeout_ms=session_ms, rebalance_timeout_ms=poll_ms, topics=topics)
                for name, history in histories
            ),
            partition_counts=counts,
            leader_rejoins=tuple(self._leader_rejoins),
            reactions=reactions(self._rounds, self._recorded.heartbeat_interval_ms or 0),
            initial_rebalance_delay_ms=_given(self._recorded.initial_rebalance_delay_ms, initial_delay_ms(self._rounds)),
            recorded_ms=tuple(each.started_ms for each in self._rounds if not each.is_avoided),
            notes=tuple(note if count == 1 else f"{note} ({count} times)" for note, count in self._notes.items()),
        )

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
        history.is_present = returned is not None
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
            history.add(Action(at_ms=at_ms, kind=A.REMOVAL))
        else:
            history.add(Action(at_ms=at_ms, kind=A.CLOSE))
            if until_ms is not None:
                history.add(Action(at_ms=max(until_ms, at_ms), kind=A.START))

    def _gap_start_ms(self, each: Round, departure: Departure, cause: Cause, history: History) -> int:
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
        history.is_present = False
        self._histories.merge(history, successor)

    def _change(self, each: Round) -> None:
        """No member came or went: the leader or another member joined again."""
        trigger = next((item for item in each.items if item.kind is Kind.TRIGGER and item.member_id), None)
        history = None if trigger is None else self._histories.of(of_evidence(trigger))
        is_leader = trigger is None or trigger.member_id == trigger.leader or (trigger.reason or "").startswith("Leader ")
        if history is None or is_leader:
            self._leader_rejoins.append(LeaderRejoin(each.started_ms, self._causes[id(each)]))
        else:
            history.add(Action(at_ms=each.started_ms, kind=A.RESUBSCRIBE, cause=self._causes[id(each)]))

    def _take_avoided(self, each: Round) -> None:
        """A static member that came back: it had stopped when its last heartbeat came."""
        item = each.parts[0].items[0]
        history = self._histories.of(of_evidence(item))
        if item.kind is not Kind.STATIC_REPLACED:
            self._notes["a second process used the instance id of a member: not replayed"] += 1
            return
        if history is None:
            history = self._histories.start(of_evidence(item), self._started_ms - BEFORE_MS)
        away_ms = item.evidence.get("last_heartbeat_age_ms", 1)
        history.add(Action(at_ms=item.at_ms - max(away_ms, 1), kind=A.CLOSE), Action(at_ms=item.at_ms, kind=A.START))
        self._histories.rename(history, of_evidence(item))


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
