"""The lines of a dump as values: what was found in a file, one after another; and the window through which a file is read.

The command prints the items. Large files take the memory of one window; what a running broker appends later is not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.log.segment_facts import Readable
from ottla.protocol.model import Record
from ottla.protocol.record_codec import JsonValue
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.control import ControlRecord


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the file that is no fault, in Kafka's words where Kafka has some."""

    text: str


@dataclass(frozen=True, slots=True)
class FindingItem:
    """Something that is wrong with a file. `heading` is a line to be printed once before all findings that share it;
    `is_fault`: the file is damaged."""

    heading: str
    text: str
    is_fault: bool = True


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A record batch of format 2, at `position` in its file; `is_valid` compares its checksum."""

    header: BatchHeader
    position: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class OldBatchItem:
    """A message of format 0 or 1, or a compressed set of them, by its first fields; its records are not read here."""

    offset: int
    position: int
    timestamp_type: str
    timestamp_ms: int
    size_bytes: int
    magic: int
    codec: int
    crc: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class RecordItem:
    """A record of the batch with `header`; `control` has its values if the batch is a control batch."""

    header: BatchHeader
    record: Record
    control: ControlRecord | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of named values: an entry of an index, a snapshot or a checkpoint; None stands for a number that is not set."""

    values: Mapping[str, JsonValue]


Item = Note | FindingItem | BatchItem | OldBatchItem | RecordItem | Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """`with_records`: records, not batches alone. `with_entries`: index entries, not only what is wrong with them. `is_sanity_check`: of
    indexes only whether a broker would take them as they are. `bytes_max`: so much of a log is read. `batch_bytes_max`: the largest batch
    that an index may point to."""

    with_records: bool = False
    with_entries: bool = True
    is_sanity_check: bool = False
    bytes_max: int | None = None
    batch_bytes_max: int | None = None


WINDOW_BYTES: Final = 1 << 20


class Window:
    """Ranges of the file at `path`. StorageError where the system refuses."""

    __slots__ = ("_buffer", "_files", "_start", "path", "size")

    def __init__(self, files: Readable, path: str, *, size_max: int | None = None) -> None:
        self._files = files
        self._start = 0
        self._buffer = b""
        self.path = path
        self.size = files.size(path)
        if size_max is not None:
            self.size = min(self.size, size_max)

    def read(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on, fewer where the file ends, none before it begins; no copy while they are in the window."""
        length = min(length, self.size - position)
        if position < 0 or length <= 0:
            return memoryview(b"")
        if not self._start <= position <= position + length <= self._start + len(self._buffer):
            self._buffer = self._files.read_range(self.path, position, max(length, min(WINDOW_BYTES, self.size - position)))
            self._start = position
        at = position - self._start
        return memoryview(self._buffer)[at : at + length]
