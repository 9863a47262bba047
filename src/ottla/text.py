"""Text from clients made safe to show, suggestions for mistyped names, and what Java makes of strings."""

from collections.abc import Iterable
from typing import Final


def printable(text: str) -> str:
    """`text` with every character that is not printable as a Python escape: a newline is `\\n`, ESC is `\\x1b`.

    Group, member and client ids may hold any character; in a log line or a table they could forge lines or control the terminal.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


_NAME_CHARS_MAX: Final = 100
"""Longer names get no suggestion: comparing them takes time."""
_LIKENESS_MIN: Final = 0.75


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean 'num.partitions'?", or nothing when no name is like it. Case, and "_" or "-" for ".", make no difference."""
    if len(name) > _NAME_CHARS_MAX:
        return ""
    # Loaded here, since most programs do not need it.
    from difflib import get_close_matches

    plain = {each.lower().replace("_", ".").replace("-", "."): each for each in known}
    asked = name.strip().lower().replace("_", ".").replace("-", ".")
    found = get_close_matches(asked, plain, n=1, cutoff=_LIKENESS_MIN)
    return f"; did you mean '{plain[found[0]]}'?" if found else ""


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in wrapping signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java's `compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
