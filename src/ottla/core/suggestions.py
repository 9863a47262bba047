"""Suggestions for a mistyped name."""

from collections.abc import Iterable
from typing import Final

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
