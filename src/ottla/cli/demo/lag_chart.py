"""The group's lag over time as a text chart: the whole group above, a line for each partition below, and where rebalances began.

A character shows the greatest lag within its time, so that short peaks are visible; it is blank where the lag is not known.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
HEIGHT: Final = 5
"""Lines of the group's chart."""
_MARGIN: Final = 9
"""Characters before the chart: a number, or a partition's."""
_AFTER: Final = 7
"""Characters after a partition's line, for its greatest lag."""


class LagRow(NamedTuple):
    """The lag (messages, None: not known) of a partition from `at_ms` on, milliseconds since 1970."""

    partition: int
    at_ms: int
    lag: int | None


def spans(rows: Sequence[LagRow], starts_ms: int, ends_ms: int, count: int) -> dict[int, list[int | None]]:
    """Each partition's greatest lag in each of `count` equal spans of the time from start to end; `rows` are in the order of time."""
    span_ms = max(1.0, (ends_ms - starts_ms) / count)
    found: dict[int, list[int | None]] = {}
    for partition in sorted({row.partition for row in rows}):
        line: list[int | None] = [None] * count
        known, reached = None, 0
        for row in rows:
            if row.partition != partition or row.at_ms > ends_ms:
                continue
            at = min(count - 1, max(0, int((row.at_ms - starts_ms) / span_ms)))
            for each in range(reached, at + 1):
                line[each] = _greater(line[each], known)
            known, reached = row.lag, at
            line[at] = _greater(line[at], known)
        for each in range(reached, count):
            line[each] = _greater(line[each], known)
        found[partition] = line
    return found


def draw(rows: Sequence[LagRow], rebalances: Sequence[tuple[int, int]], *, starts_ms: int, ends_ms: int, width: int) -> list[str]:
    """Lines of at most `width` letters; `rebalances` are (generation, when it began in milliseconds since 1970)."""
    count = width - _MARGIN - _AFTER
    by_partition = spans(rows, starts_ms, ends_ms, count)
    totals = [sum(each or 0 for each in column) for column in zip(*by_partition.values(), strict=True)] or [0] * count
    greatest = max(max(totals), 1)
    lines = []
    for level in range(HEIGHT, 0, -1):
        label = f"{greatest:,}" if level == HEIGHT else "0" if level == 1 else ""
        lines.append(f"{label:>{_MARGIN - 1}} " + "".join(_block(total * HEIGHT / greatest - level + 1) for total in totals))
    lines += [" " * _MARGIN + marks for marks in _marks(rebalances, starts_ms, ends_ms, count)]
    most = max((each or 0 for line in by_partition.values() for each in line), default=0) or 1
    for partition, line in by_partition.items():
        letters = "".join(" " if each is None else _block(each / most) for each in line)
        lines.append(f"{partition:>{_MARGIN - 1}} {letters}{max((each or 0 for each in line), default=0):>{_AFTER},}")
    return [line.rstrip() for line in lines]


def summary(rows: Sequence[LagRow], *, starts_ms: int, ends_ms: int) -> Mapping[str, int]:
    """The greatest lag of a partition, and which one's it was."""
    seen = [row for row in rows if row.lag is not None and starts_ms <= row.at_ms <= ends_ms]
    worst = max(seen, key=lambda row: row.lag or 0, default=LagRow(-1, starts_ms, 0))
    return {"greatest_lag": worst.lag or 0, "its_partition": worst.partition, "at_ms": worst.at_ms}


def _marks(rebalances: Sequence[tuple[int, int]], starts_ms: int, ends_ms: int, count: int) -> list[str]:
    """The generations where they began, earlier ones at the left edge; one that would overlap another goes a line further down."""
    lines: list[str] = []
    for generation, at_ms in sorted(rebalances, key=lambda each: each[1]):
        if at_ms > ends_ms:
            continue
        text = f"▲{generation}"
        at = max(0, min(count - len(text), int((at_ms - starts_ms) * count / max(1, ends_ms - starts_ms))))
        fits = [number for number, line in enumerate(lines) if len(line) < at or not line]
        if not fits:
            lines.append("")
            fits = [len(lines) - 1]
        lines[fits[0]] = lines[fits[0]].ljust(at) + text
    return lines


def _block(part: float) -> str:
    """A letter that is filled to this part, 0 to 1; the least lag that is none at all shows."""
    if part <= 0:
        return BLOCKS[0]
    return BLOCKS[max(1, min(len(BLOCKS) - 1, round(part * (len(BLOCKS) - 1))))]


def _greater(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)
