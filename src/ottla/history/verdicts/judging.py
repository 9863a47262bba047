"""Judges the rounds of a group, each by its members that went, those that came, or what else changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.groups.reason_evidence import evidence_in
from ottla.history.rounds.assembly import by_group, rounds_of_group
from ottla.history.rounds.changes import Role, role_of
from ottla.history.rounds.identity import Identity, of_evidence
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.departed_members import complete_departures
from ottla.history.sources.model import Evidence, Kind
from ottla.history.verdicts.arrival_rules import ARRIVAL_RULES, Joining
from ottla.history.verdicts.avoided import judge_avoided
from ottla.history.verdicts.change_conditions import is_coordinator_moved, is_protocol_changed
from ottla.history.verdicts.change_rules import CHANGE_RULES
from ottla.history.verdicts.cost import cost_of, figures_of, what_is_missing
from ottla.history.verdicts.departure_rules import DEPARTURE_RULES
from ottla.history.verdicts.hindsight import Doubt, doubts_in_hindsight, with_doubt
from ottla.history.verdicts.policy import LOSSES, POLICIES, SETTLING
from ottla.history.verdicts.rule import NOTHING, Confidence, Finding, Narrowed, findings_of, narrow
from ottla.history.verdicts.setting_advice import Situation, advice_for
from ottla.history.verdicts.stated_causes import stated_findings
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Verdict

WHOLE: Final = (Cause.CAPACITY, Cause.STORE_ERROR, Cause.MIGRATION, Cause.ASSIGNOR_CHANGE, Cause.STATIC_FENCED, Cause.STATIC_REJOIN)
"""Causes that a source names for the whole rebalance, whichever members came or went."""

SETTLES_MS: Final = 3_000

_TOLD_BY_ROLE: Final = frozenset({Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC})
"""Departures whose rules say all that the coordinator's lines do."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One possible main cause: what the rules leave, and the member that it is about."""

    narrowed: Narrowed
    at_ms: int
    who: Identity | None = None
    departure: Departure | None = None
    arrival: Arrival | None = None


def judge(evidence: Iterable[Evidence]) -> dict[str, list[Verdict]]:
    """The verdicts of every group, each group's in the order of its rebalances."""
    return {group: judge_group(group, items) for group, items in by_group(complete_departures(list(evidence))).items()}


def judge_group(group: str, evidence: Iterable[Evidence]) -> list[Verdict]:
    """The verdicts of one group; all evidence is of this group."""
    return judge_rounds(rounds_of_group(group, evidence))


def judge_rounds(rounds: Sequence[Round]) -> list[Verdict]:
    """The verdicts on these rounds, in their order."""
    losses: dict[int, Narrowed] = {}
    last = next((each for each in reversed(rounds) if not each.is_avoided), None)
    doubts = doubts_in_hindsight(rounds)
    return [_avoided(each) if each.is_avoided else _judge(each, losses, doubts.get(id(each)), is_last=each is last) for each in rounds]


def judge_follow_up(each: Round, first: Verdict, *, is_last: bool) -> Verdict:
    """The verdict on the second half of a cooperative rebalance, of which `first` is the verdict."""
    policy = POLICIES[Cause.COOP_FOLLOWUP]
    return Verdict(
        group=each.group,
        generation=each.generation,
        generations=_generations(each),
        started_ms=each.started_ms,
        ended_ms=each.ended_ms,
        kind=REBALANCE,
        outcome=_outcome(each, is_last=is_last),
        cause=Cause.COOP_FOLLOWUP,
        candidates=(Cause.COOP_FOLLOWUP,),
        confidence=first.confidence,
        planned=policy.planned,
        avoidable=policy.avoidable,
        members_before=each.count_before,
        members_after=each.count_after,
        who=_who_rejoined(each),
        cost=cost_of(each),
        sources=_sources(each),
        rules=("the second half of a cooperative rebalance",),
        clock=each.clock,
    )


def _judge(each: Round, losses: dict[int, Narrowed], doubt: Doubt | None, *, is_last: bool) -> Verdict:
    readings = _readings(each, losses, doubt)
    main = _after_move(each, _main(each, readings))
    if main.departure is not None:
        losses[id(main.departure)] = main.narrowed  # its return is the same story
    cause = main.narrowed.cause
    contributing = tuple(dict.fromkeys(reading.narrowed.cause for reading in readings if reading.narrowed.cause is not cause))
    policy = POLICIES[cause]
    figures = figures_of(each, main.departure, main.arrival)
    loss = main.departure or (main.arrival.loss if main.arrival is not None else None)
    situation = Situation(
        figures=figures,
        who=main.who,
        returned=loss.returned.who if loss is not None and loss.returned is not None else None,
        is_consumer_type=each.is_consumer_type,
        did_return=loss is not None and loss.returned is not None,
        reason="" if loss is None else _measured(loss),
    )
    avoidable = False if cause is Cause.EXPIRE_HEARTBEAT and loss is not None and loss.returned is None else policy.avoidable
    return Verdict(
        group=each.group,
        generation=each.generation,
        generations=_generations(each),
        started_ms=each.started_ms,
        ended_ms=each.ended_ms,
        kind=REBALANCE,
        outcome=_outcome(each, is_last=is_last),
        cause=cause,
        candidates=tuple(dict.fromkeys((*main.narrowed.candidates, *contributing))),
        confidence=main.narrowed.confidence if each.parts else min(main.narrowed.confidence, Confidence.MEDIUM),
        planned=policy.planned,
        avoidable=avoidable,
        rebalance_class=policy.rebalance_class,
        members_before=each.count_before,
        members_after=each.count_after,
        who=main.who,
        contributing=contributing,
        evidence=figures,
        cost=cost_of(each),
        advice=advice_for(cause, situation),
        sharper=what_is_missing(each, main.narrowed),
        sources=_sources(each),
        rules=main.narrowed.rules,
        clock=each.clock,
    )


def _measured(loss: Departure) -> str:
    """The reason with which a member left, or came back, if it has evidence."""
    reasons = (loss.client_reason, None if loss.returned is None else loss.returned.client_reason)
    return next((reason for reason in reasons if reason and evidence_in(reason)), "")


def _avoided(each: Round) -> Verdict:
    narrowed, item = judge_avoided(each), each.parts[0].items[0]
    who = of_evidence(item)
    policy = POLICIES[narrowed.cause]
    situation = Situation(dict(item.evidence), who, None, each.is_consumer_type, did_return=True)
    return Verdict(
        group=each.group,
        generation=each.generation,
        generations=_generations(each),
        started_ms=each.started_ms,
        ended_ms=each.ended_ms,
        kind=AVOIDED,
        cause=narrowed.cause,
        candidates=narrowed.candidates,
        confidence=narrowed.confidence,
        planned=policy.planned,
        avoidable=policy.avoidable,
        members_before=each.count_before,
        members_after=each.count_after,
        who=who,
        evidence=dict(item.evidence),
        cost=cost_of(each),
        advice=advice_for(narrowed.cause, situation),
        sharper=what_is_missing(each, narrowed),
        sources=_sources(each),
        rules=narrowed.rules,
        clock=each.clock,
    )


def _readings(each: Round, losses: dict[int, Narrowed], doubt: Doubt | None) -> list[_Reading]:
    """One for each member that came or went, in the order of their times; or one for what else changed."""
    has_other_protocol = is_protocol_changed(each)
    readings = []
    for departure in each.departures:
        departure.is_protocol_changed = has_other_protocol and bool(each.count_after)
        narrowed = losses[id(departure)] = judge_departure(departure)
        if doubt is not None and departure.returned is not None:
            narrowed = with_doubt(narrowed, doubt)
        readings.append(_Reading(narrowed, departure.at_ms, departure.who, departure=departure))
    for arrival in each.arrivals:
        arrival.is_protocol_changed = has_other_protocol
        narrowed = _judge_arrival(arrival, each, losses)
        if doubt is not None and arrival.loss is not None:
            narrowed = with_doubt(narrowed, doubt)
        readings.append(_Reading(narrowed, arrival.at_ms, arrival.who, arrival=arrival))
    if not readings or _begins_with_rejoin(each):
        change = _judge_change(each)
        if not readings or change.confidence > Confidence.LOW:
            readings.append(_Reading(change, each.started_ms, _who_rejoined(each)))
    readings.sort(key=_at_ms)
    return readings


def _at_ms(reading: _Reading) -> int:
    return reading.at_ms


def _main(each: Round, readings: list[_Reading]) -> _Reading:
    """What the whole rebalance is put down to: a code for all of it, a member that was lost, or else what came first."""
    whole = _whole(each)
    if whole is not None:
        return _Reading(whole, each.started_ms, _who_triggered(each))
    lost = [reading for reading in readings if reading.narrowed.cause in LOSSES]
    return min(lost, key=_is_return) if lost else readings[0]


_BY_A_MOVE: Final = frozenset({Cause.EXPIRE_HEARTBEAT, Cause.RESTART_DYNAMIC, Cause.JOIN_TIMEOUT})


def _after_move(each: Round, main: _Reading) -> _Reading:
    """Members that are lost, or join once more, right after their coordinator had moved most likely did not find it in time."""
    if main.narrowed.cause not in _BY_A_MOVE or not is_coordinator_moved(each):
        return main
    shares = ((Cause.COORDINATOR_MOVE, 0.7), *((cause, 0.3 * share) for cause, share in main.narrowed.shares))
    rules = (*main.narrowed.rules, "the coordinator had moved")
    return _Reading(Narrowed(shares, Confidence.MEDIUM, rules, False), main.at_ms, main.who, main.departure, main.arrival)


def _is_return(reading: _Reading) -> bool:
    return reading.departure is None


def _whole(each: Round) -> Narrowed | None:
    settles = each.is_start or (each.since_cold_start_ms is not None and each.since_cold_start_ms <= SETTLES_MS)
    for item in (*each.items, *each.context):
        if settles and item.trigger in SETTLING:
            continue
        if item.kind is Kind.CONVERTED and "empty" not in (item.reason or ""):
            return _certain(Cause.MIGRATION, item)
        if item.kind is Kind.TRIGGER and item.trigger in WHOLE:
            return _certain(Cause(item.trigger), item)
        if item.kind is Kind.TRIGGER and item.candidates[:1] == (Cause.STATIC_REJOIN,) and not each.arrivals and not settles:
            return Narrowed(((Cause.STATIC_REJOIN, 0.7), (Cause.STATIC_FENCED, 0.3)), Confidence.LOW, (str(item.source),), False)
    return None


def _certain(cause: Cause, item: Evidence) -> Narrowed:
    return Narrowed(((cause, 1.0),), Confidence.HIGH, (f"{item.source}: {cause}",), has_conflict=False)


def judge_departure(departure: Departure) -> Narrowed:
    """Why one member went: the causes that the rules leave, with their shares."""
    findings = findings_of(DEPARTURE_RULES, departure)
    said = departure.client_items if departure.role in _TOLD_BY_ROLE else [*departure.items, *departure.client_items]
    return narrow(findings + stated_findings(said, of_departure=True))


def _judge_arrival(arrival: Arrival, each: Round, losses: dict[int, Narrowed]) -> Narrowed:
    """A member that came back has the cause of its loss; any other is judged by itself."""
    loss = arrival.loss
    if loss is not None and not arrival.replaces:
        narrowed = losses.get(id(loss))
        narrowed = judge_departure(loss) if narrowed is None else narrowed
        if arrival.is_protocol_changed and each.count_before:
            return Narrowed(
                ((Cause.ASSIGNOR_CHANGE, 0.8), (Cause.RESTART_DYNAMIC, 0.2)), Confidence.MEDIUM, ("the assignor changed with it",), False
            )
        return _as_return(narrowed, loss) if narrowed.shares else NOTHING
    findings: list[Finding] = findings_of(ARRIVAL_RULES, Joining(arrival, each))
    narrowed = narrow(findings + stated_findings(arrival.items, of_departure=False))
    if narrowed.cause is Cause.COLD_START and not arrival.items and each.generation != 1:
        return narrowed._replace(confidence=Confidence.LOW)  # the first generation that a list shows, not the group's first
    if arrival.who.name is None and narrowed.cause is Cause.JOIN_NEW:
        # Only a random id is known: it may be a client that was there before.
        return narrowed._replace(confidence=min(narrowed.confidence, Confidence.MEDIUM))
    return narrowed


def _as_return(narrowed: Narrowed, loss: Departure) -> Narrowed:
    """The return is the same story; who closed and came back has restarted. It may also be a new member of the same name."""
    is_unsure = loss.is_shared_name or loss.is_nameless_pair
    shares: dict[Cause, float] = {}
    for cause, share in narrowed.shares:
        cause = Cause.RESTART_DYNAMIC if cause is Cause.LEAVE_CLOSE else cause
        shares[cause] = shares.get(cause, 0.0) + share
    shares[Cause.JOIN_NEW] = shares.get(Cause.JOIN_NEW, 0.0) + (0.3 if is_unsure else 0.03)
    confidence = min(narrowed.confidence, Confidence.MEDIUM) if is_unsure else narrowed.confidence
    total = sum(shares.values())
    ranked = sorted(((cause, share / total) for cause, share in shares.items()), key=_share)
    return Narrowed(ranked, confidence, (*narrowed.rules, "the client came back"), narrowed.has_conflict)


def _share(each: tuple[Cause, float]) -> float:
    return -each[1]


def _judge_change(each: Round) -> Narrowed:
    clients = [item for item in each.client_items if item.kind is Kind.CLIENT_REJOINS]
    return narrow(findings_of(CHANGE_RULES, each) + stated_findings(clients, of_departure=False))


def _begins_with_rejoin(each: Round) -> bool:
    first = next((item for item in each.items if item.kind is Kind.TRIGGER), None)
    return first is not None and not first.coalesced and role_of(first) is Role.REJOINED and each.items_before(first) == 0


def _who_rejoined(each: Round) -> Identity | None:
    return next((of_evidence(item) for item in each.items if item.kind is Kind.TRIGGER and item.member_id), None)


def _who_triggered(each: Round) -> Identity | None:
    return _who_rejoined(each)


def _generations(each: Round) -> tuple[int, ...]:
    own = each.parts[0].generations if each.parts else []
    first = tuple(own) if own else () if each.generation is None else (each.generation,)
    return first + tuple(follow_up.generation for follow_up in each.follow_ups if follow_up.generation is not None)


def _outcome(each: Round, *, is_last: bool) -> str:
    part = each.main
    if part is None:
        return "completed"
    if part.is_emptied:
        return "emptied"
    if each.ended_ms is not None:
        return "completed"
    return "interrupted" if part.is_interrupted else "open" if is_last else "superseded"


def _sources(each: Round) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(str(part.source) for part in each.parts), *(str(item.source) for item in each.client_items)]))
