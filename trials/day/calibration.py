"""Fits the shares that a verdict needs for a confidence to days with which rules are made, and writes them to the module that has them.

A verdict's share is that of its cause in all weights that the rules leave, from 0 to 1. How often verdicts are right grows with it:
isotonic regression (pool adjacent violators) over the scored verdicts of all sets of sources gives the least share from which on they
are right as often as a confidence says. Rules keep their ceilings: a verdict on one that allows no more than medium is not high, whatever
its share.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from ottla.history.sources.evidence import Evidence
from ottla.history.verdicts import verdict as verdict_module
from ottla.history.verdicts.verdict import Confidence
from trials.day.ledger import Day
from trials.day.scoring import RIGHT, SETS, is_of, judge_evidence, score

MODULE: Final = Path("src/ottla/history/verdicts/calibration.py")
RIGHT_MIN: Final = {Confidence.HIGH: 0.98, Confidence.MEDIUM: 0.75}
"""How often a verdict of each confidence is right, at least."""
TEXT: Final = '''\
"""The shares of all weights that a cause needs for a confidence. `python -m trials day --calibrate` fits them to tests/data/days."""

from typing import Final

HIGH_SHARE: Final = {high}
MEDIUM_SHARE: Final = {medium}
'''


class Line(NamedTuple):
    """A scored verdict: its share, the highest confidence that its rules allow, and whether it is right."""

    share: float
    ceiling: Confidence
    is_right: bool


def lines_of(day: Day, evidence: Sequence[Evidence]) -> list[Line]:
    """The scored verdicts of a day, by each set of sources."""
    found = []
    with patch.multiple(verdict_module, HIGH_SHARE=0.0, MEDIUM_SHARE=0.0):
        for names in SETS.values():
            verdicts = judge_evidence([item for item in evidence if is_of(item, names)])
            scored = score(day, [verdict.to_dict() for verdict in verdicts]).judged
            named = {(each.group, each.generation, each.started_ms, each.kind): each for each in verdicts}
            for each in scored:
                if each.outcome is not None:
                    key = (each.verdict["group"], each.verdict["generation"], each.verdict["started_ms"], each.verdict["kind"])
                    found.append(Line(named[key].share, named[key].confidence, each.outcome == RIGHT))
    return found


def fit(lines: Iterable[Line]) -> dict[Confidence, float]:
    """The least share of each confidence, rounded up to a thousandth; 1.0 where no share suffices."""
    lines = list(lines)
    return {
        confidence: _least_share([each for each in lines if each.ceiling >= confidence], least) for confidence, least in RIGHT_MIN.items()
    }


def _least_share(lines: Sequence[Line], right_min: float) -> float:
    blocks: list[tuple[float, int, int]] = []
    for share, of_share in groupby(sorted(lines), key=lambda line: line.share):
        right = [line.is_right for line in of_share]
        blocks.append((share, sum(right), len(right)))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][2] >= blocks[-1][1] * blocks[-2][2]:
            _, right_after, count_after = blocks.pop()
            first, right_before, count_before = blocks.pop()
            blocks.append((first, right_before + right_after, count_before + count_after))
    return next((math.ceil(1000 * share) / 1000 for share, right_ones, count in blocks if right_ones >= right_min * count), 1.0)


def module_text(shares: dict[Confidence, float]) -> str:
    """The module with these shares."""
    return TEXT.format(high=shares[Confidence.HIGH], medium=shares[Confidence.MEDIUM])
