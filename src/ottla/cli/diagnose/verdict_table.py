"""The table of verdicts: one line each, as wide as the terminal, a line with the date where the day changes."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final

from ottla.history.verdicts.verdict import AVOIDED, Verdict
from ottla.text import printable

WIDTH: Final = 80
"""Columns of a terminal, and of files and pipes. A wider terminal shows more of the names."""
_YES_NO: Final = {True: "yes", False: "no", None: "?"}
_NAME_MIN: Final = 6


def verdict_table(verdicts: Sequence[Verdict], *, zone: tzinfo, width: int = WIDTH) -> list[str]:
    """The lines, in the order of the verdicts; the group has a column where there are several."""
    several = len({verdict.group for verdict in verdicts}) > 1
    titles = ["started", *(["group"] if several else []), "gen", "cause", "sure", "planned", "avoidable", "who"]
    rows = [_cells(verdict, zone, several=several) for verdict in verdicts]
    widths = _widths(titles, rows, width)
    lines = [_line(titles, widths)]
    day = None
    for verdict, row in zip(verdicts, rows, strict=True):
        date = datetime.fromtimestamp(verdict.started_ms / 1000, zone).date()
        if date != day:
            lines.append(str(date))
            day = date
        lines.append(_line(row, widths))
    return lines


def _cells(verdict: Verdict, zone: tzinfo, *, several: bool) -> list[str]:
    started = datetime.fromtimestamp(verdict.started_ms / 1000, zone)
    return [
        started.strftime("%H:%M:%S"),
        *([printable(verdict.group)] if several else []),
        "-" if verdict.generation is None else str(verdict.generation),
        verdict.cause.value,
        verdict.confidence.name.lower(),
        _YES_NO[verdict.planned],
        "avoided" if verdict.kind == AVOIDED else _YES_NO[verdict.avoidable],
        "-" if verdict.who is None else printable(verdict.who.label),
    ]


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """As wide as the longest text; names share what the other columns leave."""
    widths = [max(len(row[at]) for row in (titles, *rows)) for at in range(len(titles))]
    names = [at for at, title in enumerate(titles) if title in ("group", "who")]
    left = width - sum(wanted for at, wanted in enumerate(widths) if at not in names) - (len(titles) - 1)
    for position, at in enumerate(names):
        share = left // (len(names) - position)
        widths[at] = min(widths[at], max(_NAME_MIN, share))
        left -= widths[at]
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(_cut(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cut(text: str, width: int) -> str:
    """Names mostly differ at the end: what is left out is their middle."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def wrapped(text: str) -> Iterator[str]:
    """A sentence in lines of the table's width, the later ones indented."""
    line = "-"
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = " "
        line += f" {word}"
    yield line
