"""Regular expressions of members, in RE2's syntax, as full matches: the time is linear in the topic's name, whatever the pattern is.

A client's pattern never runs on an engine that backtracks: without google-re2 (the extra `regex`) every pattern is refused.
"""

import re
from functools import lru_cache
from typing import Any, Final

PROGRAM_BYTES_MAX: Final = 1 << 20
"""RE2's memory for a pattern and its automaton; a pattern that needs more is refused."""
PATTERNS_CACHED: Final = 16
"""Each may take that much."""
_INSTALL: Final = "regular expressions need the package google-re2 on the broker: install ottla[regex]"
_MESSAGES: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's errors in the words of RE2/J, which Kafka uses; the others are alike."""
_ANY_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""RE2/J does not have it, since it works on characters."""


class InvalidPattern(ValueError):
    """A pattern that RE2 does not take; the text is Kafka's description."""


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern. Raises InvalidPattern."""
    if _ANY_BYTE.search(pattern):
        raise InvalidPattern("invalid escape sequence")
    return _compiled(pattern)


@lru_cache(maxsize=PATTERNS_CACHED)
def _compiled(pattern: str) -> Any:
    try:
        import re2  # here: few groups have a pattern
    except ImportError as error:
        raise InvalidPattern(_INSTALL) from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        what = text.partition(": ")[0]
        raise InvalidPattern(_MESSAGES.get(what, what)) from error
    except UnicodeEncodeError as error:
        raise InvalidPattern("invalid UTF-8") from error
