"""The cleaner's compiled backend: both passes over a buffer of whole batches, in compiled code that releases the GIL.

It implements the protocol of log/cleaner/backend.py, with the reference backend's results to the byte. What it does in Python is done per
buffer, or per
compressed batch: those are expanded and compressed here. Only importing this module loads NumPy and Numba (the extra `arrow`).
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from ottla.log.cleaner.backend import SLOT_BYTES, BatchRetention, Buffer, Filtered, Indexed, OffsetMap, Tombstones
from ottla.log.compiled import cleaning_kernels as kernels
from ottla.log.compiled.cleaning_kernels import first_slots, md5_keys
from ottla.protocol.arrow import batch_scan
from ottla.protocol.arrow.batch_scan import check, expand
from ottla.protocol.arrow.primitives import Array
from ottla.protocol.model import Record
from ottla.protocol.records.batch import CODEC_MASK, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, RECORD_BYTES_MIN, encode_batch, seal
from ottla.protocol.records.compression import Codec, compress

GROUP_BYTES_MAX = 256 * 1024
"""Most plain record bytes in one call of the kernels, but for one larger batch: with their tables they fit into the cache."""

# By retention of the batch: whether the records of the batch are looked at.
_IS_READ = np.array(
    [retention in (BatchRetention.FILTER, BatchRetention.FILTER_KEEP, BatchRetention.KEEP_UNTIL_HORIZON) for retention in BatchRetention]
)


class CompiledBackend:
    """The compiled backend (protocol: `CleaningBackend`). It reuses memory: for one thread, and one chunk at a time."""

    def __init__(self) -> None:
        self._records = np.empty((0, kernels.RECORD_COLUMNS), np.int64)
        self._digests = np.empty((0, 4), np.uint32)
        self._first_slots = np.empty(0, np.int64)
        self._out = np.empty(0, np.uint8)

    def scan(self, buffer: Buffer, marked_offsets: "array[int]") -> "CompiledChunk":
        return CompiledChunk(self, buffer, marked_offsets)

    def walk(self, group: "_Group") -> "_Walked":
        """The records of the batches that are read, up to a damaged batch."""
        rows_max = int(_counts_max(group.table)[group.is_read].sum())
        if rows_max > len(self._records):
            self._records = np.empty((rows_max, kernels.RECORD_COLUMNS), np.int64)
            self._digests = np.empty((rows_max, 4), np.uint32)
            self._first_slots = np.empty(rows_max, np.int64)
        rows, batches, status = kernels.walk(group.plain, group.table, group.is_read, self._records)
        return _Walked(self._records[:rows], batches, status)

    def keys(self, plain: Array, records: Array, memory: Array) -> tuple[Array, Array]:
        """Digests and first slots of the records' keys, as the kernels take them."""
        rows = len(records)
        md5_keys(plain, records, self._digests[:rows])
        digests = self._digests[:rows].view(np.uint64)
        first_slots(digests, len(memory), self._first_slots[:rows])
        return digests, self._first_slots[:rows]

    def out(self, size_bytes: int) -> Array:
        """Space for the batches that a kernel writes."""
        if size_bytes > len(self._out):
            self._out = np.empty(size_bytes, np.uint8)
        return self._out


class _Group(NamedTuple):
    """Batches that go through the kernels together: START and END of `table`, which is a copy, point into `plain`.

    `marks`: the retention of each batch, a copy too; `is_read`: those whose records are read.
    """

    plain: Array
    table: Array
    marks: Array
    is_read: Array

    @property
    def out_bytes_max(self) -> int:
        """What the batches can grow to: the heads of records may, when times count from another base."""
        rebuilt = HEADER_BYTES + self.table[:, batch_scan.END] - self.table[:, batch_scan.START]
        rebuilt += _counts_max(self.table) * (kernels.HEAD_BYTES_MAX - kernels.HEAD_BYTES_MIN)
        return int(np.maximum(self.table[:, batch_scan.SIZE], rebuilt).sum())


class _Walked(NamedTuple):
    """The records of a group's first `batches`; `status` is the error of the batch behind them."""

    records: Array
    batches: int
    status: int


class CompiledChunk:
    """The whole batches at the start of a buffer (protocol: `Chunk`)."""

    __slots__ = ("_backend", "_buffer", "_source", "_table", "next_batch_bytes", "size_bytes", "special")

    def __init__(self, backend: CompiledBackend, buffer: Buffer, marked_offsets: "array[int]") -> None:
        self._backend = backend
        # Read-only on purpose: one type of array means one compilation of each kernel.
        self._buffer = memoryview(buffer).toreadonly().cast("B")
        self._source = np.frombuffer(self._buffer, np.uint8)
        # Memory that is never written to is never allocated by the system: space for the smallest batches is free.
        table = np.empty((len(self._buffer) // HEADER_BYTES + 1, batch_scan.TABLE_COLUMNS), np.int64)
        marked = np.array(marked_offsets, np.int64)
        batches, self.size_bytes, self.next_batch_bytes, status = batch_scan.scan(self._source, marked, table)
        check(status)
        self._table = table[:batches]
        self.special: Sequence[int] = self._table[self._table[:, batch_scan.SPECIAL] != 0, batch_scan.AT].tolist()

    def index(self, offset_map: OffsetMap, *, skipped: Set[int], from_offset: int) -> Indexed:
        memory = _slots(offset_map)
        marks = self._marks(dict.fromkeys(skipped, 1))
        state = np.array([offset_map.entries, offset_map.latest_offset, 0, offset_map.entries_max], np.int64)
        is_full = False
        for group in self._groups(marks, marks == 0):
            records, batches, status = self._backend.walk(group)
            keys = self._backend.keys(group.plain, records, memory)
            is_full = kernels.put_keys(group.table[:batches], group.is_read, from_offset, records, keys, memory, state)
            if is_full:
                # A damaged batch behind this point has not been reached.
                break
            check(status)
        offset_map.entries, offset_map.latest_offset, passed, _ = state.tolist()
        return Indexed(passed, is_full=is_full)

    def filter(self, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention], tombstones: Tombstones) -> Filtered:
        memory = _slots(offset_map)
        times = (offset_map.latest_offset, tombstones.now_ms)
        totals = np.zeros(2, np.int64)
        data, rows = bytearray(), [np.empty((0, kernels.WRITTEN_COLUMNS), np.int64)]
        marks = self._marks(retentions)
        for group in self._groups(marks, _IS_READ[marks]):
            records, _, status = self._backend.walk(group)
            check(status)
            keys = self._backend.keys(group.plain, records, memory)
            kernels.decide(group.table, group.marks, records, keys, memory, times, totals)
            out = self._backend.out(group.out_bytes_max)
            written = np.empty((len(group.table), kernels.WRITTEN_COLUMNS), np.int64)
            batches, status = kernels.write(
                self._source, group.plain, group.table, group.marks, records, tombstones.horizon_ms, out, written
            )
            check(status)
            rows.append(written[:batches])
            _add_written(data, memoryview(out), written[:batches])
        every = np.concatenate(rows)
        sizes = every[:, kernels.WRITTEN_END].copy()
        sizes[1:] -= every[:-1, kernels.WRITTEN_END]
        last_offsets, max_timestamps = every[:, kernels.WRITTEN_LAST_OFFSET], every[:, kernels.WRITTEN_MAX_MS]
        return Filtered(data, last_offsets.tolist(), max_timestamps.tolist(), sizes.tolist(), *totals.tolist())

    def _marks(self, by_position: Mapping[int, int]) -> Array:
        """One small number a batch: the retention of the batch at a position, 0 elsewhere."""
        marks = np.zeros(len(self._table), np.int8)
        if by_position:
            positions = np.fromiter(by_position.keys(), np.int64, len(by_position))
            marks[np.searchsorted(self._table[:, batch_scan.AT], positions)] = np.fromiter(by_position.values(), np.int8, len(by_position))
        return marks

    def _groups(self, marks: Array, is_read: Array) -> Iterator[_Group]:
        """All batches, in groups; those whose records are read are not compressed any more."""
        compressed = (self._table[:, batch_scan.ATTRIBUTES] & CODEC_MASK != 0) & is_read
        ends = self._table[:, batch_scan.AT] + self._table[:, batch_scan.SIZE]
        first = 0
        while first < len(self._table):
            limit = int(self._table[first, batch_scan.AT]) + GROUP_BYTES_MAX
            last = max(int(np.searchsorted(ends, limit, "right")), first + 1)
            if compressed[first:last].any():
                last, plain, table = self._expanded(first, last, is_read)
            else:
                plain, table = self._source, self._table[first:last].copy()
            yield _Group(plain, table, marks[first:last].copy(), is_read[first:last])
            first = last

    def _expanded(self, first: int, last: int, is_read: Array) -> tuple[int, Array, Array]:
        """The batches from `first` on, at most to `last`, whose records are read brought together uncompressed: (end, bytes, table)."""
        table = self._table[first:last].copy()
        parts: list[Buffer] = []
        at = count = 0
        for (start, end, attributes), wanted in zip(
            table[:, (batch_scan.START, batch_scan.END, batch_scan.ATTRIBUTES)].tolist(), is_read[first:last].tolist(), strict=True
        ):
            if wanted:
                if at >= GROUP_BYTES_MAX:
                    break
                parts.append(expand(self._buffer[start:end], attributes))
                table[count, batch_scan.START], table[count, batch_scan.END] = at, at + len(parts[-1])
                at += len(parts[-1])
            count += 1
        return first + count, np.frombuffer(b"".join(parts), np.uint8), table[:count]


def _slots(offset_map: OffsetMap) -> Array:
    return np.frombuffer(offset_map.memory, np.uint64).reshape(-1, SLOT_BYTES // 8)


def _counts_max(table: Array) -> Array:
    """How many records each batch can have: the count in its header, but no more than fit into its bytes."""
    return np.minimum(table[:, batch_scan.COUNT], (table[:, batch_scan.END] - table[:, batch_scan.START]) // RECORD_BYTES_MIN)


def _add_written(data: bytearray, out: memoryview, written: Array) -> None:
    """Add the batches that a kernel wrote to `data`, compressing those that must be; WRITTEN_END becomes their end in `data`."""
    if not written[:, kernels.WRITTEN_PLAIN].any():
        start = len(data)
        data += out[: int(written[-1, kernels.WRITTEN_END]) if len(written) else 0]
        written[:, kernels.WRITTEN_END] += start
        return
    at, ends = 0, []
    for end, is_plain in written[:, (kernels.WRITTEN_END, kernels.WRITTEN_PLAIN)].tolist():
        data += _compressed(out[at:end]) if is_plain else out[at:end]
        ends.append(len(data))
        at = end
    written[:, kernels.WRITTEN_END] = ends


def _compressed(batch: memoryview) -> bytearray:
    """The batch, whose records are plain, as its attributes say that they are."""
    codec = Codec(batch[22] & CODEC_MASK)
    result = bytearray(batch[:HEADER_BYTES])
    result += compress(codec, batch[HEADER_BYTES:])
    result[8:LENGTH_OVERHEAD_BYTES] = (len(result) - LENGTH_OVERHEAD_BYTES).to_bytes(4)
    seal(result)
    return result


def load_kernels() -> None:
    """Call every kernel once: compiled once on a machine, which takes seconds, and read from the cache later."""
    records = [Record(0, 0, b"k", None), Record(1, 0, b"k", b"v")]
    chunk = CompiledBackend().scan(encode_batch(records), array("q"))
    offset_map = OffsetMap(4 * SLOT_BYTES)
    chunk.index(offset_map, skipped=frozenset(), from_offset=0)
    chunk.filter(offset_map, {}, Tombstones(0, 0))
