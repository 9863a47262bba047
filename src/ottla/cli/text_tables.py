"""Tables of names and figures for a terminal, as wide as it is, with a line for each day; and sentences in lines of a width."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

WIDTH: Final = 80
"""Columns of a terminal, and of files and pipes. A wider terminal shows more of the names."""
_NAME_MIN: Final = 6


def table(titles: Sequence[str], times: Sequence[datetime], rows: Sequence[list[str]], width: int) -> list[str]:
    """One line for each row, with the time of day before it, and a line with the date where the day changes. Names share the width."""
    rows = [[time.strftime("%H:%M:%S"), *row] for time, row in zip(times, rows, strict=True)]
    widths = _widths(titles, rows, width)
    lines = [_line(titles, widths)]
    day = None
    for time, row in zip(times, rows, strict=True):
        if time.date() != day:
            day = time.date()
            lines.append(str(day))
        lines.append(_line(row, widths))
    return lines


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
