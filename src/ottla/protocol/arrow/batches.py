"""Fetched bytes as slices of plain record bytes: batch headers walked, batches chosen, compressed batches expanded.

It decides which batches are worth decoding. Control batches, batches of aborted transactions (KIP-98: by the Fetch response's list of them
and the abort markers among the batches) and batches outside the requested offsets are not; their checksums count all the same, except for
those outside. It never reads a data record. Uncompressed batches are not copied, but read in the fetched buffer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ottla.protocol.arrow import record_kernels
from ottla.protocol.arrow.primitives import Array
from ottla.protocol.arrow.record_kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    CHECK,
    END,
    LAST_OFFSET_DELTA,
    OK,
    POSITION,
    PRODUCER_ID,
    READ,
    RECORD_COUNT,
    STATUS_TEXTS,
    TABLE_COLUMNS,
    choose,
    scan_headers,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    decode_batch,
)
from ottla.protocol.records.compression import Codec, decompress_into, too_much
from ottla.protocol.records.control import ControlType, control_type

Aborted = Sequence[tuple[int, int]]
"""Aborted transactions as in a Fetch response: producer id and first offset; each ends at that producer's abort marker."""

SLICE_BYTES = 256 * 1024
"""Expanded bytes that are decoded together, while they are in the processor's cache; the last batch of them may go beyond."""
ARENA_BYTES_MIN = 1024 * 1024

_BATCHES_MIN = 256
_CODECS = {codec.value: codec for codec in Codec}


def without_aborted(buffer: memoryview, table: Array, aborted: Aborted) -> Array:
    """For each batch of `table` (columns: see kernels) whether its transaction, if it has one, was not aborted.

    All batches of the response must be there, those outside of the requested offsets too: markers may be among them. Raises PeerError
    on a damaged marker of a transaction that was aborted.
    """
    stays = np.ones(len(table), bool)
    is_transactional = (table[:, ATTRIBUTES] & TRANSACTIONAL_BIT) != 0
    rows = np.flatnonzero(is_transactional & np.isin(table[:, PRODUCER_ID], [producer for producer, _ in aborted]))
    waiting = sorted(aborted, key=lambda pair: pair[1], reverse=True)
    in_force: set[int] = set()
    for row, batch in zip(rows.tolist(), table[rows].tolist(), strict=True):
        last_offset = batch[BASE_OFFSET] + batch[LAST_OFFSET_DELTA]
        while waiting and waiting[-1][1] <= last_offset:
            in_force.add(waiting.pop()[0])
        producer = batch[PRODUCER_ID]
        if producer not in in_force:
            continue
        if not batch[ATTRIBUTES] & CONTROL_BIT:
            stays[row] = False
        elif _is_abort(buffer, batch):
            in_force.discard(producer)
    return stays


def _is_abort(buffer: memoryview, batch: list[int]) -> bool:
    """Whether the marker of a control batch ends an aborted transaction; the cleaner may have left the batch without its record."""
    markers = decode_batch(buffer, batch[POSITION] - HEADER_BYTES)
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT


@dataclass(frozen=True, slots=True)
class Batches:
    """The whole batches of a fetched buffer: `table` has one row a batch (columns: see kernels)."""

    buffer: memoryview
    table: Array

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch, where the next fetch continues; None without a batch."""
        if len(self.table) == 0:
            return None
        last = self.table[-1]
        return int(last[BASE_OFFSET]) + int(last[LAST_OFFSET_DELTA]) + 1


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """Batches that are decoded together: POSITION and END of `table` count from the address `source_at`, where nothing is compressed.

    `tasks`: what is to be done with each (SKIP ...); `is_checked`: whether their checksums were compared. `source` keeps the
    bytes from being freed; they do not change until the next slice is requested. `rows_max`, `bytes_max`: bounds on the rows
    and bytes of this slice and those behind it; `expanded_bytes`: what was expanded for it.
    """

    source: Array
    source_at: int
    table: Array
    tasks: Array
    is_checked: bool
    rows_max: int
    bytes_max: int
    expanded_bytes: int = 0


class _Arena:
    """Memory that compressed batches are expanded into; it grows to what one batch may inflate to. Pages that are not written take none."""

    def __init__(self) -> None:
        self._make(ARENA_BYTES_MIN)

    def _make(self, size: int) -> None:
        self.array: Array = np.empty(size, np.uint8)
        self._view: memoryview = self.array.data

    def put(self, codec: Codec, data: memoryview, at: int) -> int | None:
        """Expand to position `at`: the number of bytes, None when there is no space for them behind the others. Raises PeerError."""
        while True:
            size = decompress_into(codec, data, self._view[at : at + DECOMPRESSED_BYTES_MAX])
            if size is not None or at:
                return size
            if len(self.array) >= DECOMPRESSED_BYTES_MAX:
                raise too_much(codec, DECOMPRESSED_BYTES_MAX)
            self._make(DECOMPRESSED_BYTES_MAX)


_idle_arenas: list[_Arena] = []


@contextmanager
def _arena() -> Iterator[_Arena]:
    """An arena that is not in use, from an earlier decoding if there is one; one that grew large is not kept."""
    try:
        arena = _idle_arenas.pop()
    except IndexError:
        arena = _Arena()
    try:
        yield arena
    finally:
        if len(arena.array) == ARENA_BYTES_MIN:
            _idle_arenas.append(arena)


def scan(buffer: bytes | bytearray | memoryview) -> Batches:
    """Walk the batch headers of `buffer`, the record bytes of a Fetch response or of a segment. The decoder compares checksums later.

    A partial batch at the end is left out. Raises PeerError on bytes that are no batches of format v2 (KIP-98).
    """
    view = memoryview(buffer).toreadonly().cast("B")
    table = np.empty((_BATCHES_MIN, TABLE_COLUMNS), np.int64)
    count, status = scan_headers(address(view), len(view), table.ctypes.data, len(table))
    if count > len(table):
        table = np.empty((count, TABLE_COLUMNS), np.int64)
        count, status = scan_headers(address(view), len(view), table.ctypes.data, len(table))
    if status != OK:
        raise PeerError(STATUS_TEXTS[status])
    return Batches(view, table[:count])


def address(buffer: memoryview) -> int:
    """The address of a buffer's bytes; the caller keeps the buffer alive."""
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def slices(batches: Batches, bounds: tuple[int, int], aborted: Aborted = ()) -> Iterator[BatchSlice]:
    """The batches that hold offsets inside `bounds` (first, end exclusive), in slices; all of them in one when none is compressed.

    Raises PeerError on a wrong CRC-32C of a compressed batch, and on compressed bytes that cannot be expanded (within
    DECOMPRESSED_BYTES_MAX); slices before it have been yielded by then.
    """
    table = batches.table
    tasks = np.empty(len(table), np.uint8)
    is_compressed = choose(table.ctypes.data, len(table), *bounds, tasks.ctypes.data)
    if aborted:
        tasks[~without_aborted(batches.buffer, table, aborted) & (tasks == READ)] = CHECK
    if is_compressed:
        yield from _expanded(batches, tasks)
    elif len(table):
        rows_max = int(table[:, RECORD_COUNT].sum())
        yield BatchSlice(batches.buffer, address(batches.buffer), table, tasks, False, rows_max, len(batches.buffer))


def _expanded(batches: Batches, tasks: Array) -> Iterator[BatchSlice]:
    table = batches.table
    sound = record_kernels.sound_batches(address(batches.buffer), table.ctypes.data, tasks.ctypes.data, len(table))
    table = table[:sound][tasks[:sound] == READ]
    columns = table[:, (POSITION, END, ATTRIBUTES)].tolist()
    rows_max, first, at = int(table[:, RECORD_COUNT].sum()), 0, 0
    with _arena() as arena:
        for number, (start, end, attributes) in enumerate(columns):
            data = batches.buffer[start:end]
            try:
                codec = _CODECS.get(attributes & CODEC_MASK)
                if codec is None:
                    raise PeerError(f"a batch names codec {attributes & CODEC_MASK}, which does not exist")
                size = arena.put(codec, data, at) if at < SLICE_BYTES else None
            except PeerError:
                yield _slice(arena, table[first:number], rows_max)
                raise
            if size is None:
                yield _slice(arena, table[first:number], rows_max)
                first, at = number, 0
                size = arena.put(codec, data, 0)
            assert size is not None, "an arena that is empty grows until there is space, or refuses"
            table[number, POSITION], table[number, END] = at, at + size
            at += size
        yield _slice(arena, table[first:], rows_max)
    if sound < len(batches.table):
        raise wrong_checksum(batches.table[sound])


def _slice(arena: _Arena, table: Array, rows_max: int) -> BatchSlice:
    tasks = np.full(len(table), READ, np.uint8)
    expanded_bytes = int(table[-1, END]) if len(table) else 0
    return BatchSlice(
        arena.array, arena.array.ctypes.data, table, tasks, True, rows_max, len(table) * DECOMPRESSED_BYTES_MAX, expanded_bytes
    )


def wrong_checksum(batch: Array) -> PeerError:
    """The error for a batch (a row of the table) whose checksum is not the stored one."""
    return PeerError(f"CRC-32C of the record batch at offset {batch[BASE_OFFSET]} is wrong")
