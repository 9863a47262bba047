"""Rows in columns as Kafka's tools lay them out: each column as wide as its longest text and no narrower than Kafka's least width.

It knows no groups; "-" stands for what is missing.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.text import printable

MISSING: Final = "-"


class Column(NamedTuple):
    """A column's title and its least width; `grows` when longer texts make it wider; width 0 stands for the last one, which has none."""

    title: str
    width: int
    grows: bool = False


def text_of(value: object) -> str:
    """A value as it is printed, with escapes for what is not printable; None is missing."""
    return MISSING if value is None else printable(str(value))


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """The title line and one line a row."""
    texts = [[text_of(value) for value in row] for row in rows]
    widths = [max([column.width, *(len(row[at]) for row in texts if column.grows)]) for at, column in enumerate(columns)]
    return [" ".join(text.ljust(width) for text, width in zip(row, widths)) for row in ([column.title for column in columns], *texts)]
