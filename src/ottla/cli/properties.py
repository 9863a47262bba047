"""Files of Java properties, in which Kafka's clients and tools keep their settings. It reads texts and knows no setting."""

import re
from typing import Final

_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a Java properties text: comments, "=", ":" or blanks between them, lines that go on behind a backslash."""
    settings = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        stripped = line.lstrip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        found = _LINE.match(stripped)
        if found is not None:
            settings[_unescaped(found[1])] = _unescaped(found[2])
    return settings


def _unescaped(text: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def letter(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else letters.get(found[2], found[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", letter, text)
