"""Compares sources with different clocks: how far the clocks are apart, and which logged departure is the one that a client speaks of.

A client joins a generation after the coordinator has formed it, and leaves before the coordinator says so. Each pair of such times is a
bound: with the first kind the client's clock is at most so far ahead, with the second at least. The least and the greatest bound enclose
the skew, however long single messages took. Clocks without a common event are compared by way of a third.

What a client says of its leaving belongs to a departure of the same client that the coordinator logged. Where nothing says how far the two
clocks are apart, they are taken to agree if that explains most of what the client says, else to differ by what explains most. aiokafka
leaves without a word of the cause; that the same process joins again was not asked for, so it was not polled in time. librdkafka's
warnings have a client id, and neither group nor member id.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from statistics import median
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause, Evidence, Kind, Source, name_in_member_id

REPEATED_AFTER_MS: Final = 600_000
"""An event that one clock has twice so far apart is two: generations begin at 1 again when a group was deleted."""
FEW_PAIRS: Final = 3
FEW_UNCERTAIN_MS: Final = 1000
"""The uncertainty of fewer pairs that bound the skew on one side only. More where there may be no skew at all: a member that was stopped
may have written its line much later."""
ZONE_STEP_MS: Final = 15 * 60_000
ZONE_TOLERANCE_MS: Final = 5_000
ZONE_HINT: Final = " (another time zone?)"
WRONG_PAIR_SPREADS: Final = 20
SPREAD_MS_MIN: Final = 500
"""Pairs further than so many spreads from the median are of different events that have one name."""
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


class Mark(NamedTuple):
    """When a clock had an event, first and last, and the event's place among those of one name: causes before effects."""

    first_ms: int
    last_ms: int
    rank: int


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """`clock` is `ahead_ms` ahead of `reference` (below 0: behind), give or take `uncertain_ms`, by `pair_count` common events."""

    clock: str
    reference: str
    ahead_ms: int
    uncertain_ms: int
    pair_count: int

    def correct(self, at_ms: int) -> int:
        """A time of this clock as the reference would have it."""
        return at_ms - self.ahead_ms

    def __str__(self) -> str:
        """As a sentence, e.g. "clock of client.log is 3.2 s behind broker.log, ±0.1 s, from 14 events"."""
        events = f"from {self.pair_count:,} event{'s' if self.pair_count != 1 else ''}"
        if abs(self.ahead_ms) <= self.uncertain_ms:
            return f"clock of {self.clock} agrees with {self.reference} within {_seconds(self.uncertain_ms)}, {events}"
        direction = "ahead of" if self.ahead_ms > 0 else "behind"
        distance = f"{_seconds(abs(self.ahead_ms))} {direction} {self.reference}, ±{_seconds(self.uncertain_ms)}"
        return f"clock of {self.clock} is {distance}, {events}{ZONE_HINT if self.is_like_a_zone else ''}"

    @property
    def is_like_a_zone(self) -> bool:
        """Whether the clock is ahead or behind by whole quarters of an hour, as if its times were of another zone than assumed."""
        quarters = round(self.ahead_ms / ZONE_STEP_MS)
        return quarters != 0 and abs(self.ahead_ms - quarters * ZONE_STEP_MS) <= self.uncertain_ms + ZONE_TOLERANCE_MS


def estimate_skews(evidence: Iterable[Evidence], *, reference: str) -> dict[str, ClockSkew]:
    """The skew of each clock against `reference`, which has none of its own; clocks that nothing connects with it are left out."""
    bounds = _bounds(evidence)
    skews = {reference: ClockSkew(reference, reference, 0, 0, 0)}
    frontier = [reference]
    while frontier:
        found: dict[str, ClockSkew] = {}
        for known in frontier:
            for clock in bounds.get(known, {}):
                if clock in skews:
                    continue
                step = _estimate(clock, known, bounds[known][clock])
                whole = _through(skews[known], step)
                if clock not in found or whole.uncertain_ms < found[clock].uncertain_ms:
                    found[clock] = whole
        skews |= found
        frontier = list(found)
    del skews[reference]
    return skews


@dataclass(slots=True)
class _Bounds:
    """Differences of a clock's times and another's: the skew is at most each of `upper`, at least each of `lower`."""

    upper: list[int] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)


def _bounds(evidence: Iterable[Evidence]) -> Mapping[str, Mapping[str, _Bounds]]:
    """By the other clock, then by the clock."""
    marks: dict[tuple[object, ...], dict[str, Mark]] = defaultdict(dict)
    for item in evidence:
        for name, rank in _events(item):
            mark = marks[name].get(item.clock, Mark(item.at_ms, item.at_ms, rank))
            marks[name][item.clock] = Mark(min(mark.first_ms, item.at_ms), max(mark.last_ms, item.at_ms), rank)
    bounds: dict[str, dict[str, _Bounds]] = defaultdict(lambda: defaultdict(_Bounds))
    for by_clock in marks.values():
        once = {clock: mark for clock, mark in by_clock.items() if mark.last_ms - mark.first_ms <= REPEATED_AFTER_MS}
        for (other, theirs), (clock, ours) in permutations(once.items(), 2):
            difference = ours.first_ms - theirs.first_ms
            if ours.rank >= theirs.rank:
                bounds[other][clock].upper.append(difference)
            if ours.rank <= theirs.rank:
                bounds[other][clock].lower.append(difference)
    return bounds


def _events(evidence: Evidence) -> list[tuple[tuple[object, ...], int]]:
    """The events that this is evidence of, by names that other sources have too, with their ranks."""
    group, generation, member = evidence.group, evidence.generation, evidence.member_id
    kind, is_client = evidence.kind, evidence.source is Source.CLIENT_LOG
    if kind in (Kind.JOIN_COMPLETED, Kind.CLIENT_JOINED) and not is_consumer_client(evidence):
        return [(("generation", group, generation), int(is_client))] if group is not None else []
    if kind in (Kind.SYNC_COMPLETED, Kind.CLIENT_JOINED):
        return [(("assignment", group, generation), int(is_client))] if group is not None else []
    if kind in (Kind.CLIENT_LEAVES, Kind.MEMBER_LEFT):
        return [(("leave", member), int(not is_client))] if member is not None else []
    if kind in (Kind.CLIENT_REJOINS, Kind.TRIGGER) and evidence.client_reason is not None:
        return [(("rejoin", member, generation), int(not is_client))] if member is not None and generation is not None else []
    return []


def is_consumer_client(evidence: Evidence) -> bool:
    """Whether a member of KIP-848 says that it joined: it is told an epoch only when the target assignment of it is computed."""
    return evidence.kind is Kind.CLIENT_JOINED and evidence.group_type == "consumer"


def _estimate(clock: str, reference: str, bounds: _Bounds) -> ClockSkew:
    upper, lower = _of_one_event(bounds.upper), _of_one_event(bounds.lower)
    count = max(len(upper), len(lower))
    if upper and lower:
        least, greatest = max(lower), min(upper)
        return ClockSkew(clock, reference, round((least + greatest) / 2), -(-abs(greatest - least) // 2), count)
    one_side = upper or lower
    nearest = min(upper) if upper else max(lower)
    uncertain = round(abs(median(one_side) - nearest))
    if count < FEW_PAIRS:
        is_delay_enough = nearest >= 0 if upper else nearest <= 0
        uncertain = max(uncertain, FEW_UNCERTAIN_MS, abs(nearest) if is_delay_enough else 0)
    return ClockSkew(clock, reference, nearest, uncertain, count)


def _of_one_event(differences: list[int]) -> list[int]:
    """Without the pairs of two events that have the same name: their differences are far from all others."""
    if len(differences) < FEW_PAIRS:
        return differences
    middle = median(differences)
    spread = max(SPREAD_MS_MIN, median(abs(each - middle) for each in differences))
    return [each for each in differences if abs(each - middle) <= WRONG_PAIR_SPREADS * spread]


def _through(known: ClockSkew, step: ClockSkew) -> ClockSkew:
    count = min(known.pair_count, step.pair_count) if known.pair_count else step.pair_count
    return ClockSkew(step.clock, known.reference, known.ahead_ms + step.ahead_ms, known.uncertain_ms + step.uncertain_ms, count)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 100 else f"{milliseconds / 1000:,.1f} s"


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
                    named |= _named(said, sorted(known, key=lambda item: item.at_ms), ahead_ms)
    return [named.get(id(item), item) for item in evidence]


def _name_expired(evidence: list[Evidence]) -> list[Evidence]:
    """A poll timeout of a client that nothing names is of the KIP-848 member that nothing names either and whose session expires next."""
    silent = [item for item in evidence if item.kind is Kind.CLIENT_LOST and item.trigger == Cause.POLL_TIMEOUT and item.member_id is None]
    if not silent:
        return evidence
    classic = {name_in_member_id(item.member_id) for item in evidence}
    silent = [item for item in silent if item.client_id is None or item.client_id not in classic]
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
    prompt = [item.at_ms for item in said if _is_prompt(item)]
    differences = sorted(at_ms - departure.at_ms for at_ms in prompt for departure in known)
    if sum(1 for each in differences if abs(each) <= SOON_MS) * 2 > len(prompt) or not prompt:
        return 0
    support = {each: bisect_left(differences, each + SOON_MS) - bisect_left(differences, each) for each in differences}
    best = max(support, key=lambda each: (support[each], -abs(each)), default=None)
    return best if best is not None and support[best] >= PAIRS_MIN and support[best] * 2 > len(prompt) else None


def _is_prompt(said: Evidence) -> bool:
    """Whether a client says it when it leaves: all but that its session expired, which it learns afterwards."""
    return said.trigger is not None or said.kind is Kind.CLIENT_LEAVES


def _has_left(departure: Evidence) -> bool:
    """Whether it sent a LeaveGroup, which no client does whose session has expired."""
    return departure.kind is Kind.MEMBER_LEFT and Cause.EXPIRE_HEARTBEAT not in (departure.trigger, *departure.candidates)


def _named(said: Sequence[Evidence], known: Sequence[Evidence], ahead_ms: int) -> dict[int, Evidence]:
    found = {}
    for item in said:
        at_ms = item.at_ms - ahead_ms
        earliest = at_ms - (SOON_MS if _is_prompt(item) else STOPPED_MS_MAX)
        near = [each for each in known if earliest <= each.at_ms <= at_ms + SOON_MS and (_is_prompt(item) or not _has_left(each))]
        if not near:
            continue
        departure = min(near, key=lambda item: abs(item.at_ms - at_ms))
        rivals = {each.member_id for each in near if abs(each.at_ms - departure.at_ms) <= SOON_MS}
        if len(rivals) == 1:
            found[id(item)] = replace(item, member_id=departure.member_id, group=item.group or departure.group)
    return found
