"""DataFrames as text tables that fit a terminal, 80 columns wide, with an overview's columns first. The caller prints the text.

What a pipeline computed is shown in short: the latest rows of a history, or the first ones of a list by size.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.spark.pipelines import Pipeline
from ottla.text import printable

ROWS_MAX: Final = 200
_GAP: Final = 3
"""Characters between two columns."""
_NARROW: Final = 6
"""Characters below which a column of texts says nothing any more."""

_NUMBERS: Final = re.compile(r"[\d :./→?-]*")
_UUID: Final = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def table_text(frame: DataFrame, *, width: int, rows_max: int = ROWS_MAX) -> str:
    """The first `rows_max` rows in columns at most `width` characters wide in all; longer cells end in an ellipsis.

    Numbers are aligned to the right, null is empty, and the UUID at the end of a member id is cut to its first digits.
    """
    rows = frame.limit(rows_max + 1).collect()
    names = frame.schema.fieldNames()
    cells = [list(map(_cell, row)) for row in rows[:rows_max]]
    # Versions of rich pad the last column differently: none is padded, and an empty column stands between two.
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    columns = list(zip(names, *cells, strict=True))
    widths = _fit(
        [max(map(len, column)) for column in columns], width - _GAP * (len(names) - 1), whole=[_is_whole(column[1:]) for column in columns]
    )
    for field, column_width in zip(frame.schema.fields, widths, strict=True):
        is_number = field.dataType.typeName() in ("integer", "long", "short", "double", "float")
        justify: Literal["left", "right"] = "right" if is_number else "left"
        if table.columns:
            table.add_column("", width=_GAP - 2)  # the box puts a space on either side of it
        table.add_column(field.name, justify=justify, no_wrap=True, overflow="ellipsis", width=column_width)
    for row in cells:
        # Not str: rich would take "[...]" in a group's name for markup.
        table.add_row(*[Text(text) for cell in row for text in (cell, "")][:-1])
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    more = f"(only the first {rows_max} rows)\n" if len(rows) > rows_max else ""
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()) + more


def _fit(widths: list[int], width: int, whole: list[bool]) -> list[int]:
    """Column widths of at most `width` in all: the widest give way first, so that numbers and names stay whole; those in `whole` last."""
    while sum(widths) > width and max(widths) > 1:
        wide = [at for at, each in enumerate(widths) if each > _NARROW and not whole[at]]
        widest = max(wide or range(len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _is_whole(cells: Sequence[str]) -> bool:
    """Whether a column has numbers and times only: half of one means nothing."""
    return all(map(_NUMBERS.fullmatch, cells))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value))
    return _UUID.sub(r"-\1…", printable(str(value)))


def overview_text(pipeline: Pipeline, table: DataFrame, *, width: int, limit: int, since_ms: int | None) -> str:
    """The overview of a pipeline's first output, at most `limit` rows, of the times from `since_ms` on (milliseconds since 1970)."""
    if since_ms is not None:
        assert pipeline.time is not None
        table = table.where(F.col(pipeline.time) >= F.timestamp_millis(F.lit(since_ms)))
    if not pipeline.shows_latest:
        return table_text(pipeline.overview(table), width=width, rows_max=limit)
    assert pipeline.time is not None
    count = table.count()
    shown = pipeline.overview(table.orderBy(F.desc_nulls_last(pipeline.time)).limit(limit))
    more = f"(only the latest {limit} of {count} rows)\n" if count > limit else ""
    return table_text(shown, width=width, rows_max=limit) + more
