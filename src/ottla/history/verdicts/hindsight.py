"""What other rebalances say about restarts: that a group changed its assignor or its protocol so, or was started again as a whole.

Each restart looks like any other where it is seen alone, however well its member's log proves it.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.verdicts.change_conditions import is_protocol_changed
from ottla.history.verdicts.rule import Confidence, Narrowed

SETTLES_MS: Final = 3_000
"""Who comes this soon after a group's first assignment belongs to its start."""


class Doubt(NamedTuple):
    """Another cause that a restart may be part of, its share, and why."""

    cause: Cause
    share: float
    reason: str


_STARTED_AGAIN: Final = Doubt(Cause.COLD_START, 0.3, "the whole group was started again")
_ONE_RESTART: Final = Doubt(Cause.ASSIGNOR_CHANGE, 0.3, "the assignor changed next to it")
_MIGRATED: Final = Doubt(Cause.MIGRATION, 0.6, "the client came back with the other protocol")
_ROLLING: Final = Doubt(Cause.ASSIGNOR_CHANGE, 0.6, "one of the restarts in which the assignor changed")


def doubts_in_hindsight(rounds: Sequence[Round]) -> dict[int, Doubt]:
    """The doubts about rounds of one group, by the round's identity."""
    doubts = {id(each): _STARTED_AGAIN for each in _starts_of_several(rounds)}
    for at, each in enumerate(rounds):
        if is_protocol_changed(each):
            around = [*_restarts(rounds[at::-1]), *_restarts(rounds[at:])]
            names = {member.who.name for restart in (each, *around) for member in _members(restart)}
            doubts |= {id(restart): _ROLLING if len(names) > 1 else _ONE_RESTART for restart in around}
    return doubts | {id(each): _MIGRATED for each in rounds if any(_speaks_other_protocol(*pair) for pair in _pairs(each))}


def with_doubt(narrowed: Narrowed, doubt: Doubt) -> Narrowed:
    """A restart with another cause that it may be part of; any other cause stays as it is."""
    if narrowed.cause is not Cause.RESTART_DYNAMIC:
        return narrowed
    shares = {cause: share * (1 - doubt.share) for cause, share in narrowed.shares}
    shares[doubt.cause] = shares.get(doubt.cause, 0.0) + doubt.share
    ranked = sorted(shares.items(), key=lambda each: -each[1])
    return narrowed._replace(shares=ranked, confidence=min(narrowed.confidence, Confidence.MEDIUM), rules=(*narrowed.rules, doubt.reason))


def _members(each: Round) -> list[Departure | Arrival]:
    return [*each.departures, *each.arrivals]


def _pairs(each: Round) -> Iterator[tuple[Departure, Arrival]]:
    """The members of a round that came back, or are back."""
    yield from ((departure, departure.returned) for departure in each.departures if departure.returned is not None)
    yield from ((arrival.loss, arrival) for arrival in each.arrivals if arrival.loss is not None)


def _speaks_other_protocol(departure: Departure, arrival: Arrival) -> bool:
    types = {item.group_type == "consumer" for item in (*departure.items, *arrival.items) if item.group_type is not None}
    return bool(departure.items) and bool(arrival.items) and len(types) > 1


def _restarts(rounds: Sequence[Round]) -> Iterator[Round]:
    """The rounds after the first one in which members did nothing but go and come back, without a longer pause between."""
    last = rounds[0]
    for each in rounds[1:]:
        is_near = each.clock != last.clock or abs(each.started_ms - last.started_ms) <= RETURN_WITHIN_MS
        if each.is_avoided or not is_near or not 0 < len(_members(each)) == len(list(_pairs(each))):
            return
        yield each
        last = each


def _starts_of_several(rounds: Sequence[Round]) -> Iterator[Round]:
    """The rounds in which a group starts that had lost several members one after the other, or all at once."""
    several, is_starting = False, False
    for each in rounds:
        if each.is_avoided:
            continue
        if each.count_before == 0 and each.arrivals:
            is_starting = several
        elif each.since_cold_start_ms is None or each.since_cold_start_ms > SETTLES_MS:
            is_starting = False
        if is_starting:
            yield each
        several = (several and not each.arrivals) or (each.count_before or 0) > 1 or (each.count_after or 0) > 1
