"""Estimates how far the clocks of several sources are apart, from events that two of them name: by its times alone no clock can be judged.

A client joins a generation after the coordinator has formed it, and leaves before the coordinator says so. Each pair of such times is
a bound: with the first kind the client's clock is at most so far ahead, with the second at least. The least and the greatest bound enclose
the skew, however long single messages took. Clocks without a common event are compared by way of a third.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from statistics import median
from typing import Final, NamedTuple

from ottla.history.sources.model import Evidence, Kind, Source

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
    for each in evidence:
        for name, rank in _events(each):
            mark = marks[name].get(each.clock, Mark(each.at_ms, each.at_ms, rank))
            marks[name][each.clock] = Mark(min(mark.first_ms, each.at_ms), max(mark.last_ms, each.at_ms), rank)
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
