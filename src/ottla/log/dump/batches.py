"""The batches and records of a log file, found by walking from header to header, damaged or not, as the items of a dump.

The lengths lead: a batch that does not match its checksum, or whose records cannot be read, is reported and skipped; only where no length
can be believed does the walk end. Batches of the old formats (0 and 1) are listed, their records are not read.

Items are values, one after another; the command prints them. A large file takes the memory of one window; what a running broker appends
later is not read.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.log.segment_facts import Readable
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import JsonValue
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    DECOMPRESSED_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    iter_batch,
)
from ottla.protocol.records.control import ControlRecord, decode_control

# What Kafka's own reader asks of any format: the fields up to the format's number, and a message of format 0 without key and value.
_START: Final = Struct(">qi4xb")
_LENGTH_MIN: Final = 14
_OLD_START: Final = Struct(">qiIbb")
_OLD_TIMESTAMP: Final = Struct(">18xq")
_OLD_CRC_FROM: Final = 16


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


class Start(NamedTuple):
    """The first fields of every format; the format's `magic` decides about the rest."""

    offset: int
    length: int
    magic: int

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_OVERHEAD_BYTES


def read_start(window: Window, position: int) -> Start | None:
    """The first fields of the batch at `position`; None when no whole batch can be there."""
    data = window.read(position, _START.size)
    if len(data) < _START.size:
        return None
    start = Start(*_START.unpack(data))
    return start if start.length >= _LENGTH_MIN and start.size_bytes <= window.size - position else None


class Ends(NamedTuple):
    """The values of a batch that indexes have: its last offset, its largest timestamp and the position of the next one."""

    last_offset: int
    max_timestamp_ms: int
    next_position: int


def read_ends(window: Window, position: int) -> Ends | None:
    """The ends of the batch at `position`; None when there is none."""
    start = read_start(window, position)
    if start is None:
        return None
    data = window.read(position, HEADER_BYTES)
    if start.magic < MAGIC:
        timestamp_ms = _OLD_TIMESTAMP.unpack_from(data)[0] if start.magic == 1 and len(data) >= _OLD_TIMESTAMP.size else NO_TIMESTAMP
        return Ends(start.offset, timestamp_ms, position + start.size_bytes)
    if len(data) < HEADER_BYTES:
        return None
    header = BatchHeader(*HEADER.unpack(data))
    return Ends(header.last_offset, header.max_timestamp_ms, position + start.size_bytes)


def dump_batches(window: Window, shown: str, options: DumpOptions) -> Iterator[Item]:
    """Every batch of a log file, in order, with its records when they are asked for."""
    position, last_offset = 0, -1
    while (start := read_start(window, position)) is not None:
        if start.magic >= MAGIC and window.size - position >= HEADER_BYTES:
            header = BatchHeader(*HEADER.unpack(window.read(position, HEADER_BYTES)))
            yield from _dump_batch(window, position, header, shown)
            records = _records(window, position, header, shown) if options.with_records else iter(())
            end = header.last_offset
        else:
            yield from _dump_old(window, position, start, shown)
            records, end = iter(()), start.offset
        if start.offset <= last_offset:
            yield FindingItem(f"Offsets that go back in {shown}", f"  {last_offset} is followed by {start.offset} at position {position}")
        yield from _in_order(records, last_offset, shown)
        position += start.size_bytes
        last_offset = max(last_offset, end)
    rest = window.size - position
    if rest > 0 and options.bytes_max is None:
        yield Note(f"Found {rest} invalid bytes at the end of {shown.rpartition('/')[2]}")
        yield FindingItem(f"No whole batch at the end of {shown}", f"  {rest} bytes from position {position} on")


def _in_order(items: Iterator[Item], last_offset: int, shown: str) -> Iterator[Item]:
    """The records, with a remark where offsets are missing: in a log that was cleaned, that is as it should be."""
    for item in items:
        if isinstance(item, RecordItem):
            offset = item.record.offset
            if last_offset >= 0 and offset != last_offset + 1:
                yield FindingItem(f"Non-consecutive offsets in {shown}", f"  {last_offset} is followed by {offset}", is_fault=False)
            last_offset = offset
        yield item


def _dump_batch(window: Window, position: int, header: BatchHeader, shown: str) -> Iterator[Item]:
    is_valid = header.size_bytes >= HEADER_BYTES and _crc32c(window, position + ATTRIBUTES_AT, position + header.size_bytes) == header.crc
    yield BatchItem(header, position, is_valid)
    where = f"  the batch of offset {header.base_offset} at position {position}"
    if not is_valid:
        yield FindingItem(f"Invalid batches in {shown}", f"{where} does not match its checksum")
    if header.magic > MAGIC:
        yield FindingItem(f"Invalid batches in {shown}", f"{where} is of format {header.magic}, which does not exist")


def _crc32c(window: Window, start: int, end: int) -> int:
    crc = 0
    for position in range(start, end, WINDOW_BYTES):
        crc = crc32c(window.read(position, min(WINDOW_BYTES, end - position)), crc)
    return crc


def _records(window: Window, position: int, header: BatchHeader, shown: str) -> Iterator[Item]:
    try:
        if header.size_bytes > DECOMPRESSED_BYTES_MAX:
            raise PeerError(f"a batch of {header.size_bytes} bytes, where {DECOMPRESSED_BYTES_MAX} are read")
        data = bytes(window.read(position, header.size_bytes))
        for record in iter_batch(data, verify_crc=False):
            yield RecordItem(header, record, decode_control(record.key, record.value) if header.is_control else None)
    except PeerError as error:
        where = f"  the batch of offset {header.base_offset} at position {position}"
        yield FindingItem(f"Records that cannot be read in {shown}", f"{where}: {error}")


def _dump_old(window: Window, position: int, start: Start, shown: str) -> Iterator[Item]:
    """A message of format 0 or 1: the checksum is the one of zlib, over all that follows it."""
    where = f"  {start.size_bytes} bytes of format {start.magic} at position {position}"
    data = window.read(position, _OLD_TIMESTAMP.size)
    if start.magic not in (0, 1) or len(data) < _OLD_TIMESTAMP.size:
        yield FindingItem(f"Invalid batches in {shown}", f"{where}: there is no such format")
        return
    offset, _, crc, magic, attributes = _OLD_START.unpack_from(data)
    timestamp_ms = _OLD_TIMESTAMP.unpack(data)[0] if magic else NO_TIMESTAMP
    timestamp_type = "NoTimestampType" if not magic else "LogAppendTime" if attributes & LOG_APPEND_TIME_BIT else "CreateTime"
    is_valid = _crc32(window, position + _OLD_CRC_FROM, position + start.size_bytes) == crc
    yield OldBatchItem(offset, position, timestamp_type, timestamp_ms, start.size_bytes, magic, attributes & 7, crc, is_valid)
    if not is_valid:
        yield FindingItem(f"Invalid batches in {shown}", f"{where} do not match their checksum")


def _crc32(window: Window, start: int, end: int) -> int:
    crc = 0
    for position in range(start, end, WINDOW_BYTES):
        crc = zlib.crc32(window.read(position, min(WINDOW_BYTES, end - position)), crc)
    return crc
