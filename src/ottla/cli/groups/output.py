"""What an action of `ottla groups` prints, in order: standard output, standard error, and one JSON document.

Tables are laid out as by Kafka's tools.
An action adds to all of them; at the end either the text or the document is printed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ottla.text import printable

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


@dataclass(slots=True)
class Transcript:
    """Collects lines. `document` is what `--json` prints; `problems` are the sentences of errors, which make its exit status 1."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        """Add lines to standard output. Names in them may hold any character: those that are not printable are escaped."""
        self.out += map(printable, lines)

    def export(self, text: str) -> None:
        """Add text for another program to standard output, as it is."""
        self.out.append(text)

    def warn(self, *lines: str) -> None:
        """Add lines to standard error, with escapes as in `say`."""
        self.err += map(printable, lines)

    def error(self, sentence: str) -> None:
        """Add an error as Kafka's tool prints it: on standard output, after an empty line."""
        self.problems.append(sentence)
        self.say("", f"Error: {sentence}")

    def add(self, **parts: Any) -> None:
        """Add parts to the JSON document."""
        self.document |= parts

    def json_text(self) -> str:
        """The JSON document."""
        problems = {"errors": self.problems} if self.problems else {}
        return json.dumps(self.document | problems, indent=2)
