"""A segment's size, and when its first and last records were written, from its files alone.

Nothing is opened for writing, created or repaired; files may belong to a running broker, ours or Apache Kafka. Whatever the bytes hold, the
answer is a figure or "not known".
"""

from typing import Final, NamedTuple, Protocol

from ottla.log.checkpoints import LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from ottla.log.index import TIME_ENTRY_BYTES
from ottla.log.segment import NO_TIMESTAMP
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import HEADER_BYTES, read_header

_WINDOW_BYTES: Final = 1 << 20
BATCHES_MAX: Final = 100_000
"""A segment that is written to may have no index yet: so many batch headers are read to find its last timestamp, no more."""


class Readable(Protocol):
    """What looking at a data directory takes of `OsFiles` and `MemoryFiles`."""

    def list(self, directory: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def read_all(self, path: str) -> bytes: ...
    def read_range(self, path: str, position: int, length: int) -> bytes: ...


class SegmentFacts(NamedTuple):
    """`first_timestamp_ms`: the largest of its first batch; `last_timestamp_ms`: the largest of all; -1 where not known."""

    base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    last_timestamp_ms: int


def segment_facts(files: Readable, directory: str, base_offset: int, *, is_active: bool) -> SegmentFacts:
    """Looks at one segment; raises StorageError where the system refuses."""
    path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
    size_bytes = files.size(path)
    first_ms = _batch_time(files.read_range(path, 0, HEADER_BYTES))
    last_ms = _last_indexed_time(files, f"{directory}/{file_name(base_offset, TIME_INDEX_SUFFIX)}")
    if is_active or last_ms == NO_TIMESTAMP:
        last_ms = max(last_ms, _walked_time(files, path, size_bytes))
    return SegmentFacts(base_offset, size_bytes, first_ms, max(first_ms, last_ms))


def _batch_time(data: bytes) -> int:
    try:
        return read_header(data).max_timestamp_ms
    except PeerError:
        return NO_TIMESTAMP


def _last_indexed_time(files: Readable, path: str) -> int:
    """The last entry's timestamp. Kafka makes the file of a segment that it writes to at full size: zeros follow the last entry."""
    if not files.exists(path):
        return NO_TIMESTAMP

    def entry(number: int) -> bytes:
        return files.read_range(path, number * TIME_ENTRY_BYTES, TIME_ENTRY_BYTES)

    low, high = 0, files.size(path) // TIME_ENTRY_BYTES  # the first entry of zeros lies in between
    while low < high:
        middle = (low + high) // 2
        if any(entry(middle)):
            low = middle + 1
        else:
            high = middle
    return int.from_bytes(entry(low - 1)[:8], signed=True) if low else NO_TIMESTAMP


def _walked_time(files: Readable, path: str, size_bytes: int) -> int:
    largest_ms, position, batches = NO_TIMESTAMP, 0, 0
    window, window_at = b"", 0
    while position + HEADER_BYTES <= size_bytes and batches < BATCHES_MAX:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = files.read_range(path, position, _WINDOW_BYTES), position
        try:
            header = read_header(window, position - window_at)
        except PeerError:  # the tail that a writer is just writing, or damage: what is known so far is the answer
            break
        largest_ms = max(largest_ms, header.max_timestamp_ms)
        position += header.size_bytes
        batches += 1
    return largest_ms
