"""The reference backend: both passes by the reference codec, a record at a time. Tests hold the compiled backend equal to it.

It decides which records are kept, and encodes them. It does not handle transactions, producers or files. Source: Kafka's
`MemoryRecords.filterTo` and `MemoryRecordsBuilder`.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from ottla.core.cleaning.backend import BatchRetention, Buffer, Filtered, Indexed, Tombstones
from ottla.core.cleaning.offset_map import OffsetMap
from ottla.core.errors import PeerError
from ottla.core.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_valid,
    empty_batch,
    join_batch,
    read_header,
    split_batches,
)
from ottla.core.records.compression import NONE, compress, decompress
from ottla.core.records.raw import RawRecord, put_raw, read_raw

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
