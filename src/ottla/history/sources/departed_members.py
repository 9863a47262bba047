"""Completes what clients say of leaving and being lost, by what comes later in their logs and by what the coordinator logged.

aiokafka leaves without a word of the cause; that the same process joins again was not asked for, so it was not polled in time. librdkafka's
warnings have a client id, and neither group nor member id.

What a client says of its leaving belongs to a departure of the same client that the coordinator logged. Where nothing says how far the two
clocks are apart, they are taken to agree if that explains most of what the client says, else to differ by what explains most.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.clock_skew import ClockSkew, estimate_skews
from ottla.history.sources.model import Evidence, Kind, Source, name_in_member_id

SOON_MS: Final = 3_000
"""A client that leaves says so within this time of the coordinator, whichever is first."""
EXPIRES_MS_MAX: Final = 60_000
"""A KIP-848 member that librdkafka stops for a poll timeout sends nothing; its session expires at most so much later."""
STOPPED_MS_MAX: Final = 3_600_000
"""A client whose session expired says so when it runs again, at most so much later."""
PAIRS_MIN: Final = 2
"""So many events must agree on a skew that nothing else confirms."""

LOSSES: Final = frozenset({Kind.CLIENT_LOST, Kind.CLIENT_LEAVES})
DEPARTURES: Final = frozenset({Kind.MEMBER_LEFT, Kind.MEMBER_REMOVED})


def complete_departures(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The same evidence; what clients say of leaving has the cause that their return shows, and the member and group that left then."""
    return _name_expired(_name_departed(_explain_by_return(evidence)))


def _explain_by_return(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """A client that joins again because of a poll timeout has left because of it."""
    timed_out = {_membership(item) for item in evidence if item.kind is Kind.CLIENT_REJOINS and item.trigger == Cause.POLL_TIMEOUT}
    return [
        replace(item, trigger=Cause.POLL_TIMEOUT, candidates=())
        if item.kind is Kind.CLIENT_LEAVES and Cause.POLL_TIMEOUT in item.candidates and _membership(item) in timed_out
        else item
        for item in evidence
    ]


def _membership(item: Evidence) -> tuple[str, str | None, str | None, int | None]:
    return item.clock, item.group, item.member_id, item.generation


def _name_departed(evidence: Sequence[Evidence]) -> list[Evidence]:
    departures: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    losses: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for item in evidence:
        client_id = item.client_id or name_in_member_id(item.member_id)
        if client_id is None:
            continue
        if item.kind in DEPARTURES and item.member_id is not None:
            departures[client_id, item.clock].append(item)
        elif item.kind in LOSSES and item.source is Source.CLIENT_LOG and item.member_id is None:
            losses[client_id, item.clock].append(item)
    if not losses or not departures:
        return list(evidence)
    clocks = {clock for _, clock in departures}
    skews = {clock: estimate_skews(evidence, reference=clock) for clock in clocks}
    named: dict[int, Evidence] = {}
    for (client_id, clock), said in losses.items():
        for (of_client, reference), known in departures.items():
            if of_client == client_id:
                ahead_ms = _ahead_ms(skews[reference].get(clock), said, known)
                if ahead_ms is not None:
                    named |= _named(said, sorted(known, key=lambda each: each.at_ms), ahead_ms)
    return [named.get(id(item), item) for item in evidence]


def _name_expired(evidence: list[Evidence]) -> list[Evidence]:
    """A poll timeout of a client that nothing names is of the KIP-848 member that nothing names either and whose session expires next."""
    silent = [item for item in evidence if item.kind is Kind.CLIENT_LOST and item.trigger == Cause.POLL_TIMEOUT and item.member_id is None]
    if not silent:
        return evidence
    owners = {item.member_id: item.client_id for item in evidence if item.client_id is not None}
    expired = [
        item for item in evidence if item.kind is Kind.MEMBER_REMOVED and item.group_type == "consumer" and item.member_id is not None
    ]
    found: dict[int, Evidence] = {}
    for item in silent:
        possible = (each for each in expired if owners.get(each.member_id, item.client_id) == item.client_id)
        later = [each for each in possible if 0 <= each.at_ms - item.at_ms <= EXPIRES_MS_MAX and item.group in (None, each.group)]
        first = min(later, key=_at_ms, default=None)
        if first is not None and all(each.member_id == first.member_id for each in later if each.at_ms - first.at_ms <= SOON_MS):
            found[id(item)] = replace(item, member_id=first.member_id, group=first.group)
    return [found.get(id(item), item) for item in evidence]


def _at_ms(item: Evidence) -> int:
    return item.at_ms


def _ahead_ms(skew: ClockSkew | None, said: Sequence[Evidence], known: Iterable[Evidence]) -> int | None:
    if skew is not None:
        return skew.ahead_ms
    prompt = [each.at_ms for each in said if _is_prompt(each)]
    differences = sorted(at_ms - departure.at_ms for at_ms in prompt for departure in known)
    if sum(1 for each in differences if abs(each) <= SOON_MS) * 2 > len(prompt) or not prompt:
        return 0
    support = {each: bisect_left(differences, each + SOON_MS) - bisect_left(differences, each) for each in differences}
    best = max(support, key=lambda each: (support[each], -abs(each)), default=None)
    return best if best is not None and support[best] >= PAIRS_MIN and support[best] * 2 > len(prompt) else None


def _is_prompt(said: Evidence) -> bool:
    """Whether a client says it when it leaves: all but that its session expired, which it learns afterwards."""
    return said.trigger is not None or said.kind is Kind.CLIENT_LEAVES


def _named(said: Sequence[Evidence], known: Sequence[Evidence], ahead_ms: int) -> dict[int, Evidence]:
    found = {}
    for item in said:
        at_ms = item.at_ms - ahead_ms
        earliest = at_ms - (SOON_MS if _is_prompt(item) else STOPPED_MS_MAX)
        near = [each for each in known if earliest <= each.at_ms <= at_ms + SOON_MS]
        if not near:
            continue
        departure = min(near, key=lambda each: abs(each.at_ms - at_ms))
        rivals = {each.member_id for each in near if abs(each.at_ms - departure.at_ms) <= SOON_MS}
        if len(rivals) == 1:
            found[id(item)] = replace(item, member_id=departure.member_id, group=item.group or departure.group)
    return found
