"""Plans as CSV: what `--export` prints and `--from-file` reads, `topic,partition,offset` or with the group before it.

It keeps no file open and prints nothing.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.groups.options import parse_number
from ottla.cli.groups.reset_arithmetic import Offsets
from ottla.core.model import TopicPartition

CHECKED_CHARS_MAX: Final = 24
"""Kafka's CSV writer puts longer texts between quotes without looking whether they need them."""
_PLAIN: Final = re.compile(r'[^,"\s\\]*')


# Spreadsheets take such a name for a formula. An apostrophe before it, which `read_plan` removes, says that it is text.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def write_plan(plans: Mapping[str, Offsets], *, with_group: bool) -> str:
    """One line a partition, with the group in front of it when there may be several."""
    lines = []
    for group, offsets in plans.items():
        for (topic, partition), offset in offsets.items():
            head = f"{_text(group)}," if with_group else ""
            lines.append(f"{head}{_text(topic)},{partition},{offset}\n")
    return "".join(lines)


def _text(value: str) -> str:
    if _FORMULA.match(value):
        value = f"'{value}"
    if len(value) <= CHECKED_CHARS_MAX and _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace('"', '""') + '"'


def read_plan(text: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """Plans by group. Lines without a group are for the one that was named. Raises CommandFailed, naming the line."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    single = len(groups) == 1 and bool(rows) and len(rows[0]) == 3
    plans: dict[str, Offsets] = {}
    for number, row in enumerate(rows, 1):
        fields = [groups[0], *row] if single else row
        if len(fields) != 4:
            expected = "topic,partition,offset" if single else "group,topic,partition,offset"
            raise CommandFailed(f"line {number} of the plan is {','.join(row)!r}, not {expected}")
        group, topic, partition, offset = (field.strip() for field in fields)
        group, topic = _name(group), _name(topic)
        key = TopicPartition(topic, parse_number(partition, f"from-file, line {number}"))
        plans.setdefault(group, {})[key] = parse_number(offset, f"from-file, line {number}")
    return plans


def _name(field: str) -> str:
    return field[1:] if field.startswith("'") and _FORMULA.match(field) else field
