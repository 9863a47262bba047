"""Finds rebalances that are told right by some sources of a day, and wrong by more of them: another source must not make it worse."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.history.sources.evidence import Evidence, Source
from trials.day.ledger import Day
from trials.day.scoring import KINDS_OF_SOURCES, RIGHT, WRONG, Judged, judge_evidence, kind_of_source, score

Key = tuple[str, int | None, str]
KINDS: Final = tuple(KINDS_OF_SOURCES)


def worsened_verdicts(day: Day, evidence: Sequence[Evidence], rng: random.Random, subsets: int) -> list[str]:
    """A line for each such rebalance: by every set of kinds of sources, and by `subsets` drawn ones with the logs of some clients only."""
    by_kinds: dict[frozenset[str], dict[Key, Judged]] = {}
    for number in range(1, 1 << len(KINDS)):
        kinds = frozenset(kind for at, kind in enumerate(KINDS) if number & 1 << at)
        by_kinds[kinds] = _judged(day, [item for item in evidence if kind_of_source(item) in kinds])
    pairs = [(fewer, more, by_kinds[fewer], by_kinds[more]) for fewer in by_kinds for more in by_kinds if fewer < more]
    found = [_worse(", ".join(sorted(fewer)), ", ".join(sorted(more)), *sets) for fewer, more, *sets in pairs]

    clients = sorted({item.clock for item in evidence if item.source is Source.CLIENT_LOG})
    whole = [kinds for kinds in by_kinds if "clients" not in kinds]
    for _ in range(subsets):
        some = set(rng.sample(clients, rng.randint(1, len(clients))))
        kinds = rng.choice(whole)
        drawn = [item for item in evidence if kind_of_source(item) in kinds or (item.source is Source.CLIENT_LOG and item.clock in some)]
        judged, names = _judged(day, drawn), ", ".join(sorted(kinds))
        found.append(_worse(names, f"{names} and logs of {len(some)} clients", by_kinds[kinds], judged))
        found.append(_worse(f"{names} and logs of {len(some)} clients", "all their clients'", judged, by_kinds[kinds | {"clients"}]))
    return sorted({line for lines in found for line in lines})


def _judged(day: Day, evidence: Sequence[Evidence]) -> dict[Key, Judged]:
    """The scored verdicts on rebalances whose generation there is once."""
    scored = score(day, [verdict.to_dict() for verdict in judge_evidence(evidence)]).judged
    counts = Counter(_key(each.verdict) for each in scored)
    return {_key(each.verdict): each for each in scored if counts[_key(each.verdict)] == 1}


def _key(verdict: Any) -> Key:
    return verdict["group"], verdict["generation"], verdict["kind"]


def _worse(fewer: str, more: str, before: dict[Key, Judged], after: dict[Key, Judged]) -> Iterable[str]:
    """The same cause at another source's time is no other answer."""
    for key, one in before.items():
        other = after.get(key)
        if one.outcome == RIGHT and other is not None and other.outcome == WRONG and one.verdict["cause"] != other.verdict["cause"]:
            causes = f"{one.verdict['cause']} by {fewer}, {other.verdict['cause']} by {more}"
            yield f"{key[0]} generation {key[1]}: {causes}"
