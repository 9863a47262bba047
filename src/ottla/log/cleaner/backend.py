"""The two passes of a cleaning: the protocol of a backend, the offset map that both passes use, and the reference backend.

Pass one indexes the dirty keys: the latest offset of each, in fixed memory, by open addressing over slots of 24 bytes (the key's MD5 and
the offset; two keys with the same MD5 would be one, as in Apache Kafka). Pass two filters all batches by them. A backend decides record by
record, by the key's latest offset and the tombstone's age. What depends on transactions and producers is decided batch by batch in
cleaning.py, and passed to it as a BatchRetention each, for the few batches that are not ordinary; so a backend processes a buffer of
ordinary batches in one call, however small they are. It touches no file.

The reference backend uses the reference codec, a record at a time; the compiled one (log/compiled) works on the same `memory` of the map,
with equal results, byte for byte. Source: Kafka's `SkimpyOffsetMap`, `Cleaner.buildOffsetMapForSegment`, `Cleaner.cleanInto`,
`MemoryRecords.filterTo`, `MemoryRecordsBuilder`.
"""

import mmap
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from enum import IntEnum
from hashlib import md5
from struct import Struct
from typing import Final, NamedTuple, Protocol

from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    RawRecord,
    crc_is_valid,
    empty_batch,
    join_batch,
    put_raw,
    read_header,
    read_raw,
    split_batches,
)
from ottla.protocol.records.compression import NONE, compress, decompress

DIGEST_BYTES: Final = 16
SLOT_BYTES: Final = 24
NO_OFFSET: Final = -1

_PROBE: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
# The digest's first 13 windows of 4 bytes are tried as probes, and behind the last of them one slot after the other.
LAST_WINDOW: Final = DIGEST_BYTES - _PROBE.size
_INT32_BITS: Final = 1 << 32
_INT32_MIN: Final = -(1 << 31)
_EMPTY: Final = bytes(SLOT_BYTES)


class OffsetMap:
    """Keys with offsets, at most `entries_max` of them (`load_factor` of the slots).

    memory: the slots; a slot of zeros is free, others hold the digest and the offset as a big-endian 64-bit number.
    entries: slots in use. latest_offset: all offsets up to it are accounted for (the last one put, or what the caller says); -1 at first.
    """

    __slots__ = ("entries", "entries_max", "latest_offset", "memory", "slots")

    def __init__(self, memory_bytes: int, *, load_factor: float = 0.9) -> None:
        self.slots = memory_bytes // SLOT_BYTES
        # One slot stays free, so that every search ends.
        self.entries_max = min(int(self.slots * load_factor), self.slots - 1)
        assert self.entries_max > 0, "an offset map for not even one key would never come to an end"
        self.clear()

    def clear(self) -> None:
        """Forget everything. `memory` is another object then."""
        self.memory = _zeros(self.slots * SLOT_BYTES)
        self.entries = 0
        self.latest_offset = NO_OFFSET

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max

    @property
    def utilization(self) -> float:
        """The share of all slots that is in use."""
        return self.entries / self.slots

    def get(self, key: bytes | bytearray | memoryview) -> int:
        """The key's latest offset, -1 when it is not in the map."""
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        if self.memory[at : at + DIGEST_BYTES] != digest:
            return NO_OFFSET
        (offset,) = _OFFSET.unpack_from(self.memory, at + DIGEST_BYTES)
        return int(offset)

    def put(self, key: bytes | bytearray | memoryview, offset: int) -> bool:
        """Set the key's offset, whatever it was; False, and nothing is done, when the map is full (then known keys are refused too)."""
        if self.entries >= self.entries_max:
            return False
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        if self.memory[at : at + SLOT_BYTES] == _EMPTY:
            self.memory[at : at + DIGEST_BYTES] = digest
            self.entries += 1
        _OFFSET.pack_into(self.memory, at + DIGEST_BYTES, offset)
        self.latest_offset = offset
        return True

    def _find(self, digest: bytes) -> int:
        """Where the slot with this digest begins, or the free one where it would go."""
        attempt, memory = 0, self.memory
        while True:
            at = probe(digest, attempt) % self.slots * SLOT_BYTES
            if memory[at : at + DIGEST_BYTES] == digest or memory[at : at + SLOT_BYTES] == _EMPTY:
                return at
            attempt += 1


def _zeros(size_bytes: int) -> mmap.mmap:
    """Fresh memory, which takes no space before it is written, in large pages where the system has them.

    To write 128 MB of zeros instead would stop every thread of the interpreter for a tenth of a second, and take longer than the rest of a
    small cleaning.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        with suppress(OSError):  # a kernel without them: small pages do as well
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def probe(digest: bytes, attempt: int) -> int:
    """The number whose remainder by the count of slots is the slot to look at in this attempt; never negative.

    In 32 bits with a sign that wrap around, as Kafka reckons: the absolute value of the smallest number is 0.
    """
    (window,) = _PROBE.unpack_from(digest, min(attempt, LAST_WINDOW))
    number = (window + max(0, attempt - LAST_WINDOW) - _INT32_MIN) % _INT32_BITS + _INT32_MIN
    return 0 if number == _INT32_MIN else abs(number)


Buffer = bytes | bytearray | memoryview


class BatchRetention(IntEnum):
    """What the filter pass does with a batch."""

    FILTER = 0
    """Every ordinary batch, also one without an entry: its records are read, and it is dropped if none is kept."""
    FILTER_KEEP = 1
    """Its records are read; if none is kept, its header is kept as an empty batch."""
    DROP = 2
    """It is dropped, unread."""
    EMPTY = 3
    """Its header is kept as an empty batch, its records are dropped, unread."""
    KEEP = 4
    """It is kept as it is, unread."""
    KEEP_UNTIL_HORIZON = 5
    """It is kept with all its records, rebuilt with a delete horizon."""


class Tombstones(NamedTuple):
    """When tombstones are dropped: the time of this cleaning, and how long a tombstone is kept after the first cleaning that reads it."""

    now_ms: int
    delete_retention_ms: int

    @property
    def horizon_ms(self) -> int:
        """The delete horizon of a batch that gets one now."""
        return self.now_ms + self.delete_retention_ms


class Indexed(NamedTuple):
    """`is_full`: the map took no more before the end of the bytes; `OffsetMap.latest_offset` is the last offset that counts."""

    records: int
    is_full: bool


class Filtered(NamedTuple):
    """What is kept, as whole batches: `data` (valid until the backend's next call), and for each batch in it what `Segment.note` needs.

    `records_read` counts the records that were read, `records_kept` those that are kept.
    """

    data: Buffer
    last_offsets: Sequence[int]
    max_timestamps_ms: Sequence[int]
    sizes_bytes: Sequence[int]
    records_read: int
    records_kept: int


class Chunk(Protocol):
    """The whole batches at the start of a buffer, headers read and checked. The methods raise PeerError on a damaged batch."""

    @property
    def size_bytes(self) -> int:
        """Where the last whole batch ends; 0 when not even the first one is whole."""
        ...

    @property
    def next_batch_bytes(self) -> int:
        """The size of the batch behind them, of which only a part is in the buffer; 0 when not even its size is."""
        ...

    @property
    def special(self) -> Sequence[int]:
        """Rising positions of the batches that are not ordinary: control or transactional ones, and those that end at a marked offset."""
        ...

    def index(self, offset_map: OffsetMap, *, skipped: Set[int], from_offset: int) -> Indexed:
        """Put the keys of all batches but those at the positions `skipped` into the map, with their offsets.

        Records without a key or below `from_offset` are passed over. Before a record that should go in while the map is full it ends.
        After each whole batch that ends at or above `from_offset`, a skipped one too, the map's `latest_offset` is that batch's last one.
        """
        ...

    def filter(self, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention], tombstones: Tombstones) -> Filtered:
        """The batches that are kept. `retentions` by position, for special batches; FILTER for all others.

        A record is kept when it lies above the map's `latest_offset`; or when it has a key, the map knows no later offset of it, and it has
        a value or its batch's delete horizon is not set or still ahead (`now_ms` < horizon). A batch whose records are all kept is copied
        as it is, unless it holds a tombstone and has no delete horizon yet. Otherwise it is rebuilt: header as before but for the count and
        what follows, records with their offsets and times, same codec. A delete horizon (bit 6, the base timestamp is the horizon then) is
        set when a tombstone is kept and none was set, and is not changed otherwise; without one the base timestamp is the first record's.
        The largest timestamp is that of the kept records. An empty batch has no records, no codec, no horizon, base timestamp -1 and the
        largest timestamp that it had.
        """
        ...


class CleaningBackend(Protocol):
    """How bytes are cleaned. One thread uses a backend."""

    def scan(self, buffer: Buffer, marked_offsets: "array[int]") -> Chunk:
        """Read the headers of the whole batches in `buffer` and check each batch's checksum; a part of a batch at the end is left alone.

        `marked_offsets`, rising 64-bit numbers: last offsets of batches whose retention is to be decided (the last one of a live producer,
        the last one of the range). `buffer` must stay as it is while the chunk is used. Raises PeerError on what is no batch of format 2.
        """
        ...


_KNOWN_BITS: Final = CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


class ReferenceBackend:
    """The backend that needs no compiled code (protocol: `CleaningBackend`)."""

    def scan(self, buffer: Buffer, marked_offsets: "array[int]") -> "ReferenceChunk":
        return ReferenceChunk(buffer, marked_offsets)


class ReferenceChunk:
    """The whole batches at the start of a buffer (protocol: `Chunk`)."""

    __slots__ = ("_batches", "_buffer", "next_batch_bytes", "size_bytes", "special")

    def __init__(self, buffer: Buffer, marked_offsets: "array[int]") -> None:
        self._buffer = buffer
        self._batches = list(split_batches(buffer))
        self.special: Sequence[int] = []
        special = []
        self.size_bytes = 0
        for position, header in self._batches:
            if not crc_is_valid(buffer, position, header.size_bytes):
                raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
            if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) or _holds(marked_offsets, header.last_offset):
                special.append(position)
            self.size_bytes = position + header.size_bytes
        self.special = special
        left = memoryview(buffer)[self.size_bytes : self.size_bytes + HEADER_BYTES]
        self.next_batch_bytes = read_header(left).size_bytes if len(left) == HEADER_BYTES else 0

    def index(self, offset_map: OffsetMap, *, skipped: Set[int], from_offset: int) -> Indexed:
        read = 0
        for position, header in self._batches:
            if position in skipped:
                read += header.record_count
            else:
                for record in self._records(position, header):
                    if record.key is not None and record.offset >= from_offset and not offset_map.put(record.key, record.offset):
                        return Indexed(read, is_full=True)
                    read += 1
            if header.last_offset >= from_offset:
                offset_map.latest_offset = header.last_offset
        return Indexed(read, is_full=False)

    def filter(self, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention], tombstones: Tombstones) -> Filtered:
        output = _Output()
        for position, header in self._batches:
            retention = retentions.get(position, BatchRetention.FILTER)
            if retention is BatchRetention.DROP:
                continue
            if retention is BatchRetention.KEEP:
                output.add(header, self._whole(position, header))
                output.kept += header.record_count
            elif retention is BatchRetention.EMPTY:
                output.add(header, empty_batch(header))
            elif retention is BatchRetention.KEEP_UNTIL_HORIZON:
                records = list(self._records(position, header))
                output.kept += len(records)
                output.add(*_rebuilt(header, records, tombstones.horizon_ms))
            else:
                self._filter_one(position, header, offset_map, retention, tombstones, output)
        return output.filtered()

    def _filter_one(
        self,
        position: int,
        header: BatchHeader,
        offset_map: OffsetMap,
        retention: BatchRetention,
        tombstones: Tombstones,
        output: "_Output",
    ) -> None:
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or tombstones.now_ms < horizon_ms
        records = list(self._records(position, header))
        kept = [record for record in records if _is_kept(record, offset_map, keeps_tombstones)]
        output.read += len(records)
        output.kept += len(kept)
        if not kept:
            if retention is BatchRetention.FILTER_KEEP:
                output.add(header, empty_batch(header))
            return
        needs_horizon = horizon_ms is None and not all(record.has_value for record in kept)
        if len(kept) == len(records) and not needs_horizon:
            output.add(header, self._whole(position, header))
        else:
            output.add(*_rebuilt(header, kept, tombstones.horizon_ms if needs_horizon else horizon_ms))

    def _whole(self, position: int, header: BatchHeader) -> memoryview:
        return memoryview(self._buffer)[position : position + header.size_bytes]

    def _records(self, position: int, header: BatchHeader) -> Iterator[RawRecord]:
        section = memoryview(self._buffer)[position + HEADER_BYTES : position + header.size_bytes]
        return read_raw(decompress(header.codec, section, output_bytes_max=DECOMPRESSED_BYTES_MAX), header)


class _Output:
    """What a filter pass has written so far."""

    __slots__ = ("_data", "_last_offsets", "_max_timestamps_ms", "_sizes_bytes", "kept", "read")

    def __init__(self) -> None:
        self._data = bytearray()
        self._last_offsets: list[int] = []
        self._max_timestamps_ms: list[int] = []
        self._sizes_bytes: list[int] = []
        self.read = self.kept = 0

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        self._data += batch
        self._last_offsets.append(header.last_offset)
        self._max_timestamps_ms.append(header.max_timestamp_ms)
        self._sizes_bytes.append(len(batch))

    def filtered(self) -> Filtered:
        return Filtered(self._data, self._last_offsets, self._max_timestamps_ms, self._sizes_bytes, self.read, self.kept)


def _holds(marked_offsets: "array[int]", offset: int) -> bool:
    at = bisect_left(marked_offsets, offset)
    return at < len(marked_offsets) and marked_offsets[at] == offset


def _is_kept(record: RawRecord, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.latest_offset:
        return True
    if record.key is None or not (record.has_value or keeps_tombstones):
        return False
    return record.offset >= offset_map.get(record.key)


def _rebuilt(header: BatchHeader, records: Sequence[RawRecord], horizon_ms: int | None) -> tuple[BatchHeader, bytearray]:
    """The batch with these records alone; the fields of the whole batch are not changed, so that its producer's sequence is kept."""
    base_timestamp_ms = records[0].timestamp_ms if horizon_ms is None else horizon_ms
    section = bytearray()
    for record in records:
        put_raw(section, record, base_offset=header.base_offset, base_timestamp_ms=base_timestamp_ms)
    if header.codec is not NONE:
        section = bytearray(compress(header.codec, section))
    header = header._replace(
        attributes=header.attributes & _KNOWN_BITS & ~DELETE_HORIZON_BIT | (horizon_ms is not None) * DELETE_HORIZON_BIT,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(NO_TIMESTAMP, max(record.timestamp_ms for record in records)),
        record_count=len(records),
    )
    return header, join_batch(header, section)
