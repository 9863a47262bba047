"""Finds the member that causes most unplanned rebalances, and members that flap: those that come and go again and again."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.diagnosis.verdicts.verdict import REBALANCE, Verdict

LAST_COUNT: Final = 6
"""How many rebalances "the last" are."""
FLAPS_MIN: Final = 3
FLAP_WITHIN_MS: Final = 600_000
"""A member that caused so many unplanned rebalances within this time flaps."""


class Culprit(NamedTuple):
    """A member by its name, and how many of the last `of_last` rebalances it caused."""

    name: str
    caused: int
    of_last: int
    is_flapping: bool


def find_culprit(verdicts: Sequence[Verdict]) -> Culprit | None:
    """The member that caused most of the last rebalances that were not planned; None where none caused two."""
    last = [verdict for verdict in verdicts if verdict.kind == REBALANCE][-LAST_COUNT:]
    unplanned = [verdict for verdict in last if verdict.planned is False and verdict.who is not None and verdict.who.name is not None]
    counts = Counter(verdict.who.name for verdict in unplanned if verdict.who is not None and verdict.who.name is not None)
    if not counts:
        return None
    name, caused = counts.most_common(1)[0]
    return Culprit(name, caused, len(last), name in flapping(verdicts)) if caused > 1 else None


def flapping(verdicts: Sequence[Verdict]) -> frozenset[str]:
    """The names of members that flap."""
    times: dict[tuple[str, str], list[int]] = {}
    found: set[str] = set()
    for verdict in verdicts:
        if verdict.planned is not False or verdict.who is None or verdict.who.name is None:
            continue
        of_member = times.setdefault((verdict.who.name, verdict.clock), [])
        of_member.append(verdict.started_ms)
        del of_member[:-FLAPS_MIN]
        if len(of_member) == FLAPS_MIN and of_member[-1] - of_member[0] <= FLAP_WITHIN_MS:
            found.add(verdict.who.name)
    return frozenset(found)
