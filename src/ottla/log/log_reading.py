"""A log as it is at one moment, for a reader on any thread: bytes for a loading coordinator, a snapshot for the cleaner.

A loading coordinator's files are held open, so that renamed ones can still be read; it gets the bytes in pieces of whole batches, and
`scan`, which it brings, says where batches end. Segments of the cleaner's snapshot may be gone when a cleaning ends: then
`PartitionLog.swap_segments` refuses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from ottla.log.file_system import Buffer, File
from ottla.log.index import AbortedTransaction
from ottla.log.settings import LogSettings
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import HEADER_BYTES


class SegmentView(NamedTuple):
    """A segment that takes no more batches. `path` lacks the suffixes (`.log`, ...); `next_base_offset` is where the one after it begins.

    `largest_timestamp_ms`: -1 when no record has one. `offset_index_bytes`, `time_index_bytes`: what its index files hold.
    """

    base_offset: int
    next_base_offset: int
    size_bytes: int
    path: str
    largest_timestamp_ms: int
    offset_index_bytes: int
    time_index_bytes: int


class ProducerEnd(NamedTuple):
    """Where a live producer stands: the last offset it wrote, -1 when only a marker of it is known."""

    epoch: int
    last_offset: int


class LogSnapshot(NamedTuple):
    """`segments`: those that may be cleaned as far as the log goes: durable, and neither active nor at or above `last_stable_offset`.

    `active_base_offset`: nothing from there on is ever cleaned. `size_bytes`: the whole log's, the active segment's included.
    """

    directory: str
    settings: LogSettings
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    active_base_offset: int
    size_bytes: int
    segments: tuple[SegmentView, ...]
    producers: Mapping[int, ProducerEnd]
    aborted: tuple[AbortedTransaction, ...]


READ_BYTES: Final = 4 * 1024 * 1024
"""So much of a file is read at once, or one batch, if that is larger."""


class ScannedBatches(Protocol):
    """What is known of the whole batches at the start of a buffer: `coordinator.loading.ScannedBatches` has it too."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def next_batch_bytes(self) -> int: ...


S = TypeVar("S", bound=ScannedBatches)


class OpenSegment(NamedTuple):
    """One file of the log, and how much of it belongs to the log."""

    file: File
    name: str
    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LogReading:
    """`close` it, or use it in a `with` statement, on the thread that made it."""

    segments: Sequence[OpenSegment]
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    aborted: Sequence[AbortedTransaction]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the files back."""
        for segment in self.segments:
            segment.file.close()

    def pieces(self, scan: Callable[[Buffer], S], from_offset: int = 0) -> Iterator[tuple[str, Buffer, S]]:
        """Every segment that reaches `from_offset`, in pieces of whole batches: (the file's name, bytes, what `scan` says of them).

        Raises StorageError where a file cannot be read or is damaged: `scan` says so by a PeerError.
        """
        for number, segment in enumerate(self.segments):
            is_last = number + 1 == len(self.segments)
            if is_last or self.segments[number + 1].base_offset > from_offset:
                yield from _pieces(segment, scan)


def _pieces(segment: OpenSegment, scan: Callable[[Buffer], S]) -> Iterator[tuple[str, Buffer, S]]:
    position, wanted = 0, READ_BYTES
    while position < segment.size_bytes:
        asked = min(wanted, segment.size_bytes - position)
        buffer = segment.file.read(position, asked)
        if len(buffer) < asked:
            raise damaged(segment.name, f"it ends at byte {position + len(buffer)}, before its {segment.size_bytes} bytes")
        try:
            scanned = scan(buffer)
        except PeerError as error:
            raise damaged(segment.name, error) from error
        if scanned.size_bytes:
            yield segment.name, buffer, scanned
            position += scanned.size_bytes
            wanted = READ_BYTES
        else:
            wanted = max(scanned.next_batch_bytes, HEADER_BYTES)
            if wanted <= asked or position + wanted > segment.size_bytes:
                raise damaged(segment.name, f"no whole batch begins at byte {position}")


def damaged(name: str, what: object) -> StorageError:
    """The error for a log whose bytes cannot be what was written."""
    return StorageError(f"{name} cannot be read: it is damaged: {what}")
