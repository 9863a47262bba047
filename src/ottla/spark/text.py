"""A DataFrame as text that fits a terminal: for people, and never for programs. It makes the text; whoever asked for it prints it."""

import io
import re
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

ROWS_MAX: Final = 200
_UUID: Final = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def table_text(frame: DataFrame, *, width: int, rows_max: int = ROWS_MAX) -> str:
    """The first `rows_max` rows in columns at most `width` characters wide in all; what does not fit ends in an ellipsis.

    Numbers stand to the right, null is empty, and the UUID at the end of a member id is cut to its first digits.
    """
    rows = frame.limit(rows_max + 1).collect()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for field in frame.schema.fields:
        is_number = field.dataType.typeName() in ("integer", "long", "short", "double", "float")
        table.add_column(field.name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    for row in rows[:rows_max]:
        table.add_row(*map(_cell, row))
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    more = f"(only the first {rows_max} rows)\n" if len(rows) > rows_max else ""
    lines = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    return lines.strip("\n") + "\n" + more


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value))
    return _UUID.sub(r"-\1…", str(value))
