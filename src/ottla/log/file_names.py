"""The names of a log's files: the base offset (or, of a snapshot, its offset) in twenty digits, and a suffix for the kind of file."""

from collections.abc import Iterable
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The log comes first, since it is the log that makes a segment."""
_DIGITS: Final = 20


def file_name(offset: int, suffix: str) -> str:
    """The name of the file with this offset, without its directory."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset that a file name begins with; None when it begins otherwise."""
    digits = name[:_DIGITS]
    return int(digits) if len(digits) == _DIGITS and digits.isascii() and digits.isdigit() else None


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the names with exactly this suffix, in rising order."""
    found = (offset_of(name) for name in names if name.endswith(suffix) and len(name) == _DIGITS + len(suffix))
    return sorted(offset for offset in found if offset is not None)
