"""Judges the rounds of a group, each by its members that went, those that came, or what else changed.

Sources may name a cause in so many words: one code is nearly certain, several candidates are left open. Other rebalances say whether a
group changed its assignor or its protocol by restarts, or was started again as a whole: each restart looks like any other where it is seen
alone, however well its member's log proves it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ottla.groups.reason_evidence import evidence_in
from ottla.history.processes import Identity, of_evidence
from ottla.history.rounds.assembly import complete_by_group, rounds_of_group
from ottla.history.rounds.membership import Role, role_of
from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.rounds.splitting import CONSUMER_TYPE
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.sources.log_lines import ANY_LEAVE, REMOVED_BEFORE
from ottla.history.sources.outages import AT_ONCE_MS, LOST_AT_ONCE
from ottla.history.verdicts.arrival_rules import ARRIVAL_RULES, ASSIGNOR_CAME, Joining, judge_avoided
from ottla.history.verdicts.change_rules import CHANGE_RULES, is_coordinator_moved, is_protocol_changed
from ottla.history.verdicts.cost import cost_of, figures_of, slowest_of, what_is_missing
from ottla.history.verdicts.departure_rules import DEPARTURE_RULES
from ottla.history.verdicts.policy import LOSSES, POLICIES, SETTLING
from ottla.history.verdicts.setting_advice import Situation, advice_for
from ottla.history.verdicts.verdict import (
    AVOIDED,
    NOTHING,
    REBALANCE,
    REFUSED,
    Confidence,
    Finding,
    Narrowed,
    Verdict,
    Weights,
    findings_of,
    narrow,
)

_CODES: Final = {cause.value: cause for cause in Cause} | {"ADMIN_REMOVE": Cause.ADMIN}

_OPEN_IN_DEPARTURES: Final[Weights] = {Cause.RESTART_DYNAMIC: 0.05, Cause.ASSIGNOR_CHANGE: 0.02, Cause.MIGRATION: 0.02}
_OPEN_ELSEWHERE: Final[Weights] = {Cause.COORDINATOR_MOVE: 0.05, Cause.ASSIGNOR_CHANGE: 0.05, Cause.MIGRATION: 0.05}
"""A line about one member seldom excludes these."""

_IMPLIED: Final[Mapping[Cause, Weights]] = {
    Cause.LEAVE_CLOSE: {Cause.RESTART_DYNAMIC: 1.0, Cause.ASSIGNOR_CHANGE: 0.5},
    Cause.JOIN_NEW: {Cause.COLD_START: 1.0, Cause.RESTART_DYNAMIC: 1.0, Cause.ASSIGNOR_CHANGE: 1.0},
    Cause.TOPIC_CHANGE: {Cause.COORDINATOR_MOVE: 0.2},
}
"""What a line cannot tell from the cause that it names: a client that closes does not say that it will be started again, and a coordinator
that has a new member does not say which assignors it brings."""
WHOLE: Final = (Cause.CAPACITY, Cause.STORE_ERROR, Cause.MIGRATION, Cause.ASSIGNOR_CHANGE, Cause.STATIC_FENCED, Cause.STATIC_REJOIN)
"""Causes that a source names for the whole rebalance, whichever members came or went."""

SETTLES_MS: Final = 3_000
"""Who comes this soon after a group's first assignment belongs to its start."""

STOPS_MS: Final = 2_000
"""All members of a group are closed within a time like this."""

_TOLD_BY_ROLE: Final = frozenset({Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC})
"""Departures whose rules say all that the coordinator's lines do."""


def stated_findings(items: Iterable[Evidence], *, of_departure: bool) -> list[Finding]:
    """One finding for each code, and for each set of candidates, of each source."""
    found: dict[tuple[str, ...], Finding] = {}
    for item in items:
        codes = (item.trigger,) if item.trigger in _CODES else item.candidates
        if codes and (item.source, *codes) not in found:
            causes = [_CODES[code] for code in codes if code in _CODES]
            if causes:
                found[item.source, *codes] = _finding(item, causes, _OPEN_IN_DEPARTURES if of_departure else _OPEN_ELSEWHERE)
    return list(found.values())


def _finding(item: Evidence, causes: list[Cause], is_open: Weights) -> Finding:
    weights = dict(is_open)
    if causes == [Cause.POLL_TIMEOUT]:
        weights.pop(Cause.RESTART_DYNAMIC, None)  # a member that says so was there to say it
    if causes == [Cause.SUBSCRIPTION] and item.source is Source.CLIENT_LOG:
        weights |= {Cause.TOPIC_CHANGE: 0.3}  # a client with a pattern does not say why it matches other topics
    if tuple(causes) == REMOVED_BEFORE.candidates:
        weights |= {Cause.ADMIN: 1.0, Cause.SYNC_TIMEOUT: 1.0}  # whoever removed it
    if tuple(causes) == ANY_LEAVE.candidates:
        weights |= {Cause.ADMIN: 1.0}  # whoever sent it
    for cause in causes:
        weights |= _IMPLIED.get(cause, {})
    weights |= dict.fromkeys(causes, 1.0)
    confidence = Confidence.HIGH if len(causes) == 1 else Confidence.MEDIUM
    return Finding(f"{item.source}: {' or '.join(causes)}", item.source, weights, confidence)


class Doubt(NamedTuple):
    """Another cause that a restart may be part of, its share, and why. stopped_ms: when the last of all members closed, where they did."""

    cause: Cause
    share: float
    reason: str
    stopped_ms: int | None = None


_STARTED_AGAIN: Final = Doubt(Cause.COLD_START, 0.3, "the whole group was started again")
_ONE_RESTART: Final = Doubt(Cause.ASSIGNOR_CHANGE, 0.3, "the assignor changed next to it")
_MIGRATED: Final = Doubt(Cause.MIGRATION, 0.6, "the client came back with the other protocol")
_ROLLING: Final = Doubt(Cause.ASSIGNOR_CHANGE, 0.6, "one of the restarts in which the assignor changed")


def doubts_in_hindsight(rounds: Sequence[Round]) -> dict[int, Doubt]:
    """The doubts about rounds of one group, by the round's identity."""
    doubts = {id(rebalance): _STARTED_AGAIN._replace(stopped_ms=stopped_ms) for rebalance, stopped_ms in _starts_of_several(rounds)}
    for at, rebalance in enumerate(rounds):
        if is_protocol_changed(rebalance) and any(_pairs(rebalance)):
            around = [*_restarts(rounds[at::-1]), *_restarts(rounds[at:])]
            names = {member.who.name for restart in (rebalance, *around) for member in _members(restart)}
            doubts |= {id(restart): _ROLLING if len(names) > 1 else _ONE_RESTART for restart in around}
    return doubts | {id(rebalance): _MIGRATED for rebalance in rounds if any(_speaks_other_protocol(*pair) for pair in _pairs(rebalance))}


def with_doubt(narrowed: Narrowed, doubt: Doubt) -> Narrowed:
    """A restart with another cause that it may be part of; any other cause stays as it is."""
    return _mixed(narrowed, doubt) if narrowed.cause is Cause.RESTART_DYNAMIC else narrowed


def _mixed(narrowed: Narrowed, doubt: Doubt) -> Narrowed:
    shares = {cause: share * (1 - doubt.share) for cause, share in narrowed.shares}
    shares[doubt.cause] = shares.get(doubt.cause, 0.0) + doubt.share
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return narrowed._replace(shares=ranked, confidence=min(narrowed.confidence, Confidence.MEDIUM), rules=(*narrowed.rules, doubt.reason))


def started_again(narrowed: Narrowed, loss: Departure, doubt: Doubt) -> Narrowed:
    """The return of a member that had been lost long before all others closed: it most likely starts because all do."""
    if doubt.stopped_ms is None or loss.at_ms > doubt.stopped_ms - STOPS_MS or narrowed.cause is not Cause.EXPIRE_HEARTBEAT:
        return narrowed
    return _mixed(narrowed, doubt._replace(share=0.6))


def _members(rebalance: Round) -> list[Departure | Arrival]:
    return [*rebalance.departures, *rebalance.arrivals]


def _pairs(rebalance: Round) -> Iterator[tuple[Departure, Arrival]]:
    """The members of a round that came back, or are back."""
    yield from ((departure, departure.returned) for departure in rebalance.departures if departure.returned is not None)
    yield from ((arrival.loss, arrival) for arrival in rebalance.arrivals if arrival.loss is not None)


def _speaks_other_protocol(departure: Departure, arrival: Arrival) -> bool:
    types = {item.group_type == "consumer" for item in (*departure.items, *arrival.items) if item.group_type is not None}
    return bool(departure.items) and bool(arrival.items) and len(types) > 1


def _restarts(rounds: Sequence[Round]) -> Iterator[Round]:
    """The rounds after the first one in which members did nothing but go and come back, without a longer pause between."""
    last = rounds[0]
    for rebalance in rounds[1:]:
        is_near = rebalance.clock != last.clock or abs(rebalance.started_ms - last.started_ms) <= RETURN_WITHIN_MS
        if rebalance.is_avoided or not is_near or not 0 < len(_members(rebalance)) == len(list(_pairs(rebalance))):
            return
        yield rebalance
        last = rebalance


def _starts_of_several(rounds: Sequence[Round]) -> Iterator[tuple[Round, int | None]]:
    """The rounds in which a group starts that had lost several members one after the other, or all at once; when the last one closed."""
    several, is_starting = False, False
    stopped_ms: int | None = None
    for rebalance in rounds:
        if rebalance.is_avoided:
            continue
        if rebalance.count_before == 0 and rebalance.arrivals:
            is_starting = several
        elif rebalance.since_cold_start_ms is None or rebalance.since_cold_start_ms > SETTLES_MS:
            is_starting = False
        if is_starting:
            yield rebalance, stopped_ms
        if rebalance.count_after == 0:
            closed = [departure.at_ms for departure in rebalance.departures if departure.role == Role.LEFT]
            stopped_ms = max(closed, default=None)
        several = (several and not rebalance.arrivals) or (rebalance.count_before or 0) > 1 or (rebalance.count_after or 0) > 1


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
    return {group: judge_group(group, items) for group, items in complete_by_group(evidence).items()}


def judge_group(group: str, evidence: Iterable[Evidence]) -> list[Verdict]:
    """The verdicts of one group; all evidence is of this group."""
    return judge_rounds(rounds_of_group(group, evidence))


def judge_rounds(rounds: Sequence[Round]) -> list[Verdict]:
    """The verdicts on these rounds, in their order."""
    losses: dict[int, Narrowed] = {}
    last = next((rebalance for rebalance in reversed(rounds) if not rebalance.is_avoided), None)
    doubts = doubts_in_hindsight(rounds)
    return [
        _avoided(rebalance) if rebalance.is_avoided else _judge(rebalance, losses, doubts.get(id(rebalance)), is_last=rebalance is last)
        for rebalance in rounds
    ]


def judge_follow_up(rebalance: Round, first: Verdict, *, is_last: bool) -> Verdict:
    """The verdict on the second half of a cooperative rebalance, of which `first` is the verdict."""
    policy = POLICIES[Cause.COOP_FOLLOWUP]
    return Verdict(
        group=rebalance.group,
        generation=rebalance.generation,
        generations=_generations(rebalance),
        started_ms=rebalance.started_ms,
        ended_ms=rebalance.ended_ms,
        kind=REBALANCE,
        outcome=_outcome(rebalance, is_last=is_last),
        cause=Cause.COOP_FOLLOWUP,
        candidates=(Cause.COOP_FOLLOWUP,),
        confidence=first.confidence,
        planned=policy.planned,
        avoidable=policy.avoidable,
        members_before=rebalance.count_before,
        members_after=rebalance.count_after,
        who=_who_rejoined(rebalance),
        cost=cost_of(rebalance),
        sources=_sources(rebalance),
        rules=("the second half of a cooperative rebalance",),
        clock=rebalance.clock,
    )


def _judge(rebalance: Round, losses: dict[int, Narrowed], doubt: Doubt | None, *, is_last: bool) -> Verdict:
    readings = _readings(rebalance, losses, doubt)
    main = _by_broker(rebalance, _main(rebalance, readings))
    for reading in readings:
        if reading.departure is not None:
            losses[id(reading.departure)] = _by_broker(rebalance, reading).narrowed  # its return is the same story
    cause = main.narrowed.cause
    contributing = tuple(dict.fromkeys(reading.narrowed.cause for reading in readings if reading.narrowed.cause is not cause))
    policy = POLICIES[cause]
    figures = figures_of(rebalance, main.departure, main.arrival)
    loss = main.departure or (main.arrival.loss if main.arrival is not None else None)
    situation = Situation(
        figures=figures,
        who=main.who,
        returned=loss.returned.who if loss is not None and loss.returned is not None else None,
        is_consumer_type=rebalance.is_consumer_type,
        did_return=loss is not None and loss.returned is not None,
        reason="" if loss is None else _measured(loss),
    )
    avoidable = False if cause is Cause.EXPIRE_HEARTBEAT and loss is not None and loss.returned is None else policy.avoidable
    return Verdict(
        group=rebalance.group,
        generation=rebalance.generation,
        generations=_generations(rebalance),
        started_ms=rebalance.started_ms,
        ended_ms=rebalance.ended_ms,
        kind=REBALANCE,
        outcome=_outcome(rebalance, is_last=is_last),
        cause=cause,
        candidates=tuple(dict.fromkeys((*main.narrowed.candidates, *contributing))),
        confidence=main.narrowed.confidence if rebalance.parts else min(main.narrowed.confidence, Confidence.MEDIUM),
        planned=policy.planned,
        avoidable=avoidable,
        rebalance_class=policy.rebalance_class,
        members_before=rebalance.count_before,
        members_after=rebalance.count_after,
        who=main.who,
        contributing=contributing,
        evidence=figures,
        cost=cost_of(rebalance),
        advice=advice_for(cause, situation),
        sharper=what_is_missing(rebalance, main.narrowed),
        sources=_sources(rebalance),
        rules=main.narrowed.rules,
        clock=rebalance.clock,
        share=main.narrowed.share,
        slowest=slowest_of(rebalance),
    )


def _measured(loss: Departure) -> str:
    """The reason with which a member left, or came back, if it has evidence."""
    reasons = (loss.client_reason, None if loss.returned is None else loss.returned.client_reason)
    return next((reason for reason in reasons if reason and evidence_in(reason)), "")


def _avoided(rebalance: Round) -> Verdict:
    narrowed, item = _after_outage(rebalance, judge_avoided(rebalance)), rebalance.parts[0].items[0]
    who = of_evidence(item)
    policy = POLICIES[narrowed.cause]
    situation = Situation(dict(item.evidence), who, None, rebalance.is_consumer_type, did_return=True)
    return Verdict(
        group=rebalance.group,
        generation=rebalance.generation,
        generations=_generations(rebalance),
        started_ms=rebalance.started_ms,
        ended_ms=rebalance.ended_ms,
        kind=REFUSED if narrowed.cause is Cause.FAILED_JOIN else AVOIDED,
        cause=narrowed.cause,
        candidates=narrowed.candidates,
        confidence=narrowed.confidence,
        planned=policy.planned,
        avoidable=policy.avoidable,
        members_before=rebalance.count_before,
        members_after=rebalance.count_after,
        who=who,
        evidence=dict(item.evidence),
        cost=cost_of(rebalance),
        advice=advice_for(narrowed.cause, situation),
        sharper=what_is_missing(rebalance, narrowed),
        sources=_sources(rebalance),
        rules=narrowed.rules,
        clock=rebalance.clock,
        share=narrowed.share,
    )


def _readings(rebalance: Round, losses: dict[int, Narrowed], doubt: Doubt | None) -> list[_Reading]:
    """One for each member that came or went, in the order of their times; or one for what else changed."""
    has_other_protocol = is_protocol_changed(rebalance)
    readings = []
    for departure in rebalance.departures:
        departure.is_protocol_changed = has_other_protocol and bool(rebalance.count_after)
        narrowed = losses[id(departure)] = judge_departure(departure)
        if doubt is not None and departure.returned is not None:
            narrowed = with_doubt(narrowed, doubt)
        readings.append(_Reading(narrowed, departure.at_ms, departure.who, departure=departure))
    for arrival in rebalance.arrivals:
        arrival.is_protocol_changed = has_other_protocol
        narrowed = _judge_arrival(arrival, rebalance, losses)
        if doubt is not None and arrival.loss is not None:
            narrowed = started_again(with_doubt(narrowed, doubt), arrival.loss, doubt)
        readings.append(_Reading(narrowed, arrival.at_ms, arrival.who, arrival=arrival))
    if not readings or _begins_with_rejoin(rebalance):
        change = _judge_change(rebalance)
        if not readings or change.confidence > Confidence.LOW:
            readings.append(_Reading(change, rebalance.started_ms, _who_rejoined(rebalance)))
    readings.sort(key=lambda reading: reading.at_ms)
    return readings


def _main(rebalance: Round, readings: list[_Reading]) -> _Reading:
    """What the whole rebalance is put down to: a code for all of it, a member that was lost, or else what came first."""
    whole = _whole(rebalance)
    if whole is not None:
        return _Reading(whole, rebalance.started_ms, _who_triggered(rebalance))
    at_once = [each for each in readings if each.departure is not None and LOST_AT_ONCE in each.departure.figures]
    if at_once and at_once[0].at_ms - readings[0].at_ms > AT_ONCE_MS:
        readings = [each for each in readings if each not in at_once]  # it had begun before
    elif at_once:
        return at_once[0]
    lost = [reading for reading in readings if reading.narrowed.cause in LOSSES]
    if not lost:
        return readings[0]
    main = min(lost, key=_is_return)
    if main.narrowed.cause is Cause.EXPIRE_HEARTBEAT and main.at_ms - readings[0].at_ms > AT_ONCE_MS and readings[0] not in lost:
        confidence = min(main.narrowed.confidence, Confidence.MEDIUM)  # others had begun it
        return replace(main, narrowed=main.narrowed._replace(confidence=confidence))
    return main


_BY_A_MOVE: Final = frozenset({Cause.EXPIRE_HEARTBEAT, Cause.RESTART_DYNAMIC, Cause.JOIN_TIMEOUT})
OUTAGE_MS: Final = 20_000
"""So long after a broker had lost members at once, these may still look for their place."""
_BY_AN_OUTAGE: Final = {Cause.COLD_START: 0.7, Cause.STATIC_REJOIN: 0.6, Cause.SYNC_TIMEOUT: 0.5, Cause.STATIC_FENCED: 0.3}
"""How likely it is then that members repeat a request that the broker had not answered, or have not got their answer."""


def _by_broker(rebalance: Round, reading: _Reading) -> _Reading:
    """Members that are lost, or join once more, right after their coordinator had moved most likely did not find it in time.

    One of several that did may have been lost by itself.
    """
    loss = reading.departure or (reading.arrival.loss if reading.arrival is not None else None)
    has_left = loss is not None and loss.role == Role.LEFT
    if reading.narrowed.cause not in _BY_A_MOVE or has_left or not is_coordinator_moved(rebalance):
        return replace(reading, narrowed=_after_outage(rebalance, reading.narrowed))
    is_alone = len({member.who for member in _members(rebalance)}) < ((rebalance.count_before or 0) + 1) // 2
    return replace(reading, narrowed=_with_move(reading.narrowed, 0.3 if is_alone else 0.7, "the coordinator had moved"))


def _after_outage(rebalance: Round, narrowed: Narrowed) -> Narrowed:
    """What a group does soon after it has lost members together with others; what a static member does after its coordinator had moved."""
    if rebalance.is_avoided and narrowed.cause is Cause.STATIC_REJOIN and is_coordinator_moved(rebalance):
        return _with_move(narrowed, _BY_AN_OUTAGE[Cause.STATIC_REJOIN], "the coordinator had moved")
    is_soon = rebalance.since_outage_ms is not None and rebalance.since_outage_ms <= OUTAGE_MS
    share = _BY_AN_OUTAGE.get(narrowed.cause, 0.0) if is_soon else 0.0
    return _with_move(narrowed, share, "members of several groups had been lost in one instant") if share else narrowed


def _with_move(narrowed: Narrowed, share: float, reason: str) -> Narrowed:
    shares = {cause: (1 - share) * other for cause, other in narrowed.shares}
    shares[Cause.COORDINATOR_MOVE] = shares.get(Cause.COORDINATOR_MOVE, 0.0) + share
    ranked = sorted(shares.items(), key=lambda each: -each[1])
    return Narrowed(ranked, min(narrowed.confidence, Confidence.MEDIUM), (*narrowed.rules, reason), False)


def _is_return(reading: _Reading) -> bool:
    return reading.departure is None


def _whole(rebalance: Round) -> Narrowed | None:
    settles = rebalance.is_start or (rebalance.since_cold_start_ms is not None and rebalance.since_cold_start_ms <= SETTLES_MS)
    for item in (*rebalance.items, *rebalance.context):
        if settles and item.trigger in SETTLING:
            continue
        if item.kind is Kind.CONVERTED and "empty" not in (item.reason or ""):
            return _certain(Cause.MIGRATION, item)
        if item.kind is Kind.TRIGGER and item.trigger in WHOLE and not (item.trigger == Cause.STATIC_REJOIN and rebalance.arrivals):
            return _certain(Cause(item.trigger), item)
        if item.kind is Kind.TRIGGER and item.candidates[:1] == (Cause.STATIC_REJOIN,) and not rebalance.arrivals and not settles:
            return Narrowed(((Cause.STATIC_REJOIN, 0.7), (Cause.STATIC_FENCED, 0.3)), Confidence.LOW, (str(item.source),), False)
    return None


def _certain(cause: Cause, item: Evidence) -> Narrowed:
    return Narrowed(((cause, 1.0),), Confidence.HIGH, (f"{item.source}: {cause}",), has_conflict=False)


def judge_departure(departure: Departure) -> Narrowed:
    """Why one member went: the causes that the rules leave, with their shares."""
    if LOST_AT_ONCE in departure.figures:
        shares = ((Cause.COORDINATOR_MOVE, 0.95), (Cause.EXPIRE_HEARTBEAT, 0.05))
        return Narrowed(shares, Confidence.HIGH, ("members of several groups were lost in one instant",), has_conflict=False)
    findings = findings_of(DEPARTURE_RULES, departure)
    said = departure.client_items if departure.role in _TOLD_BY_ROLE else [*departure.items, *departure.client_items]
    return narrow(findings + stated_findings(said, of_departure=True))


def _judge_arrival(arrival: Arrival, rebalance: Round, losses: dict[int, Narrowed]) -> Narrowed:
    """A member that came back has the cause of its loss; any other is judged by itself."""
    loss = arrival.loss
    if loss is not None and not arrival.replaces:
        narrowed = losses.get(id(loss))
        narrowed = judge_departure(loss) if narrowed is None else narrowed
        returned = _as_return(narrowed, loss) if narrowed.shares else NOTHING
        changed = [each for each in findings_of(ARRIVAL_RULES, Joining(arrival, rebalance)) if each.name == ASSIGNOR_CAME]
        return narrow([_finding_of(returned), *changed]) if changed and returned.shares else returned
    findings: list[Finding] = findings_of(ARRIVAL_RULES, Joining(arrival, rebalance))
    narrowed = narrow(findings + stated_findings(arrival.items, of_departure=False))
    if narrowed.cause is Cause.COLD_START and not arrival.items and rebalance.generation != 1:
        return narrowed._replace(confidence=Confidence.LOW)  # the first generation that a list shows, not the group's first
    if arrival.who.name is None and narrowed.cause is Cause.JOIN_NEW:
        # Only a random id is known: it may be a client that was there before.
        return narrowed._replace(confidence=min(narrowed.confidence, Confidence.MEDIUM))
    return narrowed


def _finding_of(narrowed: Narrowed) -> Finding:
    """What findings leave, as one, for more to be said of it. A source of the group may not see that an assignor changed."""
    weights = dict(narrowed.shares)
    weights[Cause.ASSIGNOR_CHANGE] = max(0.02, weights.get(Cause.ASSIGNOR_CHANGE, 0.0))
    return Finding(", ".join(narrowed.rules), Source.BROKER_LOG, weights, narrowed.confidence)


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
    ranked = sorted(((cause, share / total) for cause, share in shares.items()), key=lambda pair: -pair[1])
    return Narrowed(ranked, confidence, (*narrowed.rules, "the client came back"), narrowed.has_conflict)


def _judge_change(rebalance: Round) -> Narrowed:
    for item in rebalance.items:
        if item.kind is Kind.TRIGGER and item.group_type == CONSUMER_TYPE and role_of(item) is Role.REJOINED and item.trigger in _CODES:
            return _certain(_CODES[item.trigger], item)  # the coordinator of a consumer group knows what a member changed
    clients = [item for item in rebalance.client_items if item.kind is Kind.CLIENT_REJOINS]
    return narrow(findings_of(CHANGE_RULES, rebalance) + stated_findings(clients, of_departure=False))


def _begins_with_rejoin(rebalance: Round) -> bool:
    first = next((item for item in rebalance.items if item.kind is Kind.TRIGGER), None)
    return first is not None and not first.coalesced and role_of(first) is Role.REJOINED and rebalance.items_before(first) == 0


def _who_rejoined(rebalance: Round) -> Identity | None:
    return next((of_evidence(item) for item in rebalance.items if item.kind is Kind.TRIGGER and item.member_id), None)


def _who_triggered(rebalance: Round) -> Identity | None:
    return _who_rejoined(rebalance)


def _generations(rebalance: Round) -> tuple[int, ...]:
    own = rebalance.parts[0].generations if rebalance.parts else []
    first = tuple(own) if own else () if rebalance.generation is None else (rebalance.generation,)
    return first + tuple(follow_up.generation for follow_up in rebalance.follow_ups if follow_up.generation is not None)


def _outcome(rebalance: Round, *, is_last: bool) -> str:
    part = rebalance.main
    if part is None:
        return "completed"
    if part.is_emptied:
        return "emptied"
    if rebalance.ended_ms is not None:
        return "completed"
    return "interrupted" if part.is_interrupted else "open" if is_last else "superseded"


def _sources(rebalance: Round) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(str(part.source) for part in rebalance.parts), *(str(item.source) for item in rebalance.client_items)]))
