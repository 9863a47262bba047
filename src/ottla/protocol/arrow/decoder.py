"""Kafka record batches (format v2) to Arrow: the compiled backend, for callers that need columns instead of objects.

A kernel is called slice by slice, space is allocated when it is full, and Arrow batches are yielded. `Decoder` decides when an Arrow batch
ends: at `rows_max` rows or when there is no space for the next record. Which columns there are, and which kernel fills them, its
subclasses say: `RecordBatchDecoder` has the columns of Spark's Kafka source and builds only those that are asked for. Nothing here reads a
socket or a file, and any bytes give Arrow batches or PeerError.

Columns are filled by address and made without a copy. Their memory is of Arrow's own pool, which reuses it: fresh pages would cost as much
as the copying.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow import record_kernels
from ottla.protocol.arrow.batches import Aborted, Batches, BatchSlice, scan, slices, wrong_checksum
from ottla.protocol.arrow.primitives import Array
from ottla.protocol.arrow.record_kernels import BAD_COUNT, BAD_CRC, END, OK, POSITION, RECORD_COUNT, SLACK_BYTES, STATUS_TEXTS
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import RECORD_BYTES_MIN

BYTES_MIN = 64 * 1024
BYTES_MAX = 4 * 1024 * 1024
"""Most data of a column of byte strings in one Arrow batch, but for a single larger string."""
_HALF_BYTES = 4
_GROWTH = 4

OFFSET_END_MAX = 2**63 - 1
ROWS_MAX = 16_384
"""Most rows of an Arrow batch: enough to hide the cost of a call, few enough to stay in the processor's cache."""

Kernel = Callable[[int, int, int, int, int, int, int, int, int], int]
"""(source_at, table_at, tasks_at, is_checked, batches, first_offset, end_offset, out_at, state_at) -> status; see record_kernels.decode."""

HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
COLUMN_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADER_TYPE,
}
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_STRING_WORDS = {"key": record_kernels.KEYS, "value": record_kernels.VALUES}
_STRING_STATES = {
    "key": (record_kernels.KEY_BYTES, record_kernels.KEY_NULLS),
    "value": (record_kernels.VALUE_BYTES, record_kernels.VALUE_NULLS),
}
_NUMBER_WORDS = {
    "offset": record_kernels.OFFSETS,
    "timestamp": record_kernels.TIMESTAMPS,
    "timestampType": record_kernels.TIMESTAMP_TYPES,
}


class Numbers:
    """A column of numbers without nulls, or with them when `has_nulls`: `bits` has the validity then."""

    def __init__(self, kind: pa.DataType, rows_max: int, *, has_nulls: bool = False) -> None:
        self._kind = kind
        # Whole bytes of booleans too.
        self._data = pa.allocate_buffer((rows_max * kind.bit_width + 7) // 8)
        self._bits = pa.allocate_buffer((rows_max + 7) // 8) if has_nulls else None
        self.address: int = self._data.address
        self.bits: int = self._bits.address if self._bits is not None else 0

    def array(self, rows: int, nulls: int = 0) -> pa.Array:
        """The first so many rows."""
        return pa.Array.from_buffers(self._kind, rows, [self._bits if nulls else None, self._data], nulls)

    def set_bits(self, rows: list[int]) -> None:
        """Make these rows true; for a column of booleans."""
        data = np.frombuffer(self._data, np.uint8)
        for row in rows:
            data[row >> 3] |= 1 << (row & 7)


class Strings:
    """A column of byte strings or of text: `words` are the addresses of offsets, data and bits of validity, and the space for data."""

    def __init__(self, kind: pa.DataType, rows_max: int, space: int) -> None:
        self._kind = kind
        self._offsets = pa.allocate_buffer(_HALF_BYTES * (rows_max + 1))
        self._data = pa.allocate_buffer(space + SLACK_BYTES)
        self._bits = pa.allocate_buffer((rows_max + 7) // 8)
        self.words: tuple[int, int, int, int] = (self._offsets.address, self._data.address, self._bits.address, space)

    def array(self, rows: int, used: int, nulls: int) -> pa.Array:
        """The first so many rows, whose data are `used` bytes."""
        return pa.Array.from_buffers(self._kind, rows, [self._bits if nulls else None, self._offsets, self._data.slice(0, used)], nulls)

    def list_array(self, kind: pa.DataType, rows: int, entries: pa.Array, nulls: int) -> pa.Array:
        """Lists whose entries lie one after another in `entries`; there are no data of their own."""
        return pa.Array.from_buffers(kind, rows, [self._bits if nulls else None, self._offsets], nulls, children=[entries])


class Capacity:
    """How much data a column of byte strings gets space for: what the last batch used and a margin, a large one after it was too little."""

    def __init__(self) -> None:
        self._bytes = BYTES_MAX

    def plan(self, bytes_ahead: int) -> int:
        """Space for the next batch, when at most so many bytes can come."""
        return min(self._bytes, bytes_ahead)

    def learn(self, used: int, *, was_full: bool) -> None:
        """After a batch that used so many bytes, and may have ended because there was no space for more."""
        self._bytes = min(max(_GROWTH * self._bytes if was_full else used + used // 4, BYTES_MIN), BYTES_MAX)


class Columns(ABC):
    """Columns that a kernel fills.

    `out`: the words by which the kernel finds the columns (int64). `state`: the words that say how much of them is filled; those of the
    cursor come first. `is_of_one_slice`: whether the rows must be taken before the next slice, because they point into it. `capacities`: of
    the columns of strings.
    """

    def __init__(self, schema: pa.Schema, rows_max: int, words: tuple[int, int], strings: Iterable[str], *, is_of_one_slice: bool) -> None:
        self.schema = schema
        self.rows_max = rows_max
        self.out, self.state = (np.zeros(count, np.int64) for count in words)
        self.capacities = {name: Capacity() for name in strings if name in schema.names}
        self.is_of_one_slice = is_of_one_slice

    def make_space(self, rows_max: int, bytes_max: int) -> None:
        """New, empty columns, for as many as is sensible of so many rows and bytes of data that may come."""
        rows = min(rows_max, self.rows_max, bytes_max // RECORD_BYTES_MIN + 1)
        self._make(rows, {name: capacity.plan(bytes_max) for name, capacity in self.capacities.items()})

    def make_space_for_one(self, bytes_max: int) -> None:
        """New, empty columns for a single record of so many bytes."""
        self._make(1, dict.fromkeys(self.capacities, bytes_max))

    @abstractmethod
    def _make(self, rows_max: int, capacities: Mapping[str, int]) -> None:
        """New, empty columns for so many rows; `capacities`: bytes for each column of strings."""

    @abstractmethod
    def take(self, rows: int, *, was_full: bool) -> pa.RecordBatch:
        """The filled rows, as an Arrow batch."""


class Decoder:
    """Decodes the fetched bytes of one partition; for one thread, and one decoding after the other.

    `expanded_bytes`: decompressed bytes that are held, besides the Arrow batch that was yielded last.
    """

    def __init__(self, kernel: Kernel, columns: Columns) -> None:
        self.schema, self.rows_max = columns.schema, columns.rows_max
        self.expanded_bytes = 0
        self._kernel = kernel
        self._columns = columns

    def decode(
        self,
        records: bytes | bytearray | memoryview | Batches,
        *,
        offset_start: int = 0,
        offset_end: int = OFFSET_END_MAX,
        aborted: Aborted = (),
    ) -> Iterator[pa.RecordBatch]:
        """The records with offset_start <= offset < offset_end, as Arrow batches of at most `rows_max` rows; control records are left out,
        and so are the records of `aborted` transactions (producer id and first offset, as the Fetch response with these bytes has them).

        Raises PeerError on bytes that are no record batches, a wrong CRC-32C or bad compressed data; batches before the bad one have
        been yielded by then.
        """
        batches = records if isinstance(records, Batches) else scan(records)
        bounds = (offset_start, offset_end)
        yield from _decode_slices(self._kernel, self._columns, self._noted(slices(batches, bounds, aborted)), bounds)

    def _noted(self, parts: Iterable[BatchSlice]) -> Iterator[BatchSlice]:
        for part in parts:
            self.expanded_bytes = part.expanded_bytes
            yield part
        self.expanded_bytes = 0


def schema_of(columns: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of these columns, in their order. Raises ValueError for a name that `types` does not have."""
    for name in columns:
        if name not in types:
            raise ValueError(f"unknown column {name}; there are {', '.join(types)}")
    return pa.schema([pa.field(name, types[name]) for name in columns])


def _decode_slices(kernel: Kernel, columns: Columns, slices: Iterable[BatchSlice], bounds: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """The records whose offsets are inside `bounds` (first, end exclusive). Raises PeerError; good records before it come out first."""
    state = columns.state
    state[:] = 0
    out_at, state_at = columns.out.ctypes.data, state.ctypes.data
    has_space = False
    for part in slices:
        state[record_kernels.CURSOR_BATCH] = state[record_kernels.CURSOR_POSITION] = 0
        work = (part.source_at, part.table.ctypes.data, part.tasks.ctypes.data, int(part.is_checked), len(part.table))
        status = record_kernels.FULL
        while status == record_kernels.FULL:
            if not has_space:
                columns.make_space(part.rows_max, part.bytes_max)
                has_space = True
            status = kernel(*work, *bounds, out_at, state_at)
            rows = int(state[record_kernels.ROWS])
            if rows and (status != OK or columns.is_of_one_slice):
                yield columns.take(rows, was_full=status == record_kernels.FULL)
                state[record_kernels.ROWS :] = 0
                has_space = False
            elif status == record_kernels.FULL:
                # A single record that is larger than the space of a batch.
                batch = part.table[state[record_kernels.CURSOR_BATCH]]
                columns.make_space_for_one(int(batch[END] - batch[POSITION]))
        if status != OK:
            raise _problem(part.table[state[record_kernels.CURSOR_BATCH]], status)
    if state[record_kernels.ROWS]:
        yield columns.take(int(state[record_kernels.ROWS]), was_full=False)


def _problem(batch: Array, status: int) -> PeerError:
    if status == BAD_CRC:
        return wrong_checksum(batch)
    if status == BAD_COUNT:
        size = batch[END] - batch[POSITION]
        return PeerError(f"{batch[RECORD_COUNT]} records declared in {size} bytes")
    return PeerError(STATUS_TEXTS[status])


@lru_cache(maxsize=256)
def repeated(value: str | int, name: str, rows: int) -> pa.Array:
    """A column that has one value in all rows; kept for the next decoder, since some callers make one for each fetch."""
    # From buffers: to make a scalar, Arrow imports pandas, which takes every worker of Spark 0.4 s of CPU.
    if isinstance(value, int):
        return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, pa.py_buffer(np.full(rows, value, np.int32))])
    text = value.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)])


class RecordBatchDecoder(Decoder):
    """Decodes a partition of any topic.

    `columns`: names from COLUMN_TYPES in the order wanted; "headers" is a list of (key, value), null for a record without headers, as in
    Spark's Kafka source. `timestampType` is 0 for CreateTime and 1 for LogAppendTime.
    """

    def __init__(self, topic: str, partition: int, *, columns: Sequence[str] = COLUMNS, rows_max: int = ROWS_MAX) -> None:
        constants: dict[str, str | int] = {"topic": topic, "partition": partition}
        repeats = {name: repeated(value, name, rows_max) for name, value in constants.items() if name in columns}
        super().__init__(record_kernels.decode, _Columns(schema_of(columns, COLUMN_TYPES), rows_max, repeats))


class _Columns(Columns):
    def __init__(self, schema: pa.Schema, rows_max: int, constants: dict[str, pa.Array]) -> None:
        words = (record_kernels.OUT_WORDS, record_kernels.STATE_WORDS)
        super().__init__(schema, rows_max, words, _STRING_WORDS, is_of_one_slice="headers" in schema.names)
        self._constants = constants
        self._numbers: dict[str, Numbers] = {}
        self._strings: dict[str, Strings] = {}
        self._spans = np.empty(rows_max * record_kernels.HEADER_SPAN_WORDS if self.is_of_one_slice else 0, np.int64)

    def _make(self, rows_max: int, capacities: Mapping[str, int]) -> None:
        out = self.out
        out[:] = 0
        out[record_kernels.ROWS_MAX] = rows_max
        for name, word in _STRING_WORDS.items():
            out[word + record_kernels.BINARY_SPACE] = record_kernels.ENDLESS
            if name in capacities:
                self._strings[name] = Strings(COLUMN_TYPES[name], rows_max, capacities[name])
                out[word : word + record_kernels.BINARY_WORDS] = self._strings[name].words
        for name, word in _NUMBER_WORDS.items():
            if name in self.schema.names:
                self._numbers[name] = Numbers(COLUMN_TYPES[name], rows_max)
                out[word] = self._numbers[name].address
        if self.is_of_one_slice:
            out[record_kernels.HEADER_SPANS] = self._spans.ctypes.data

    def take(self, rows: int, *, was_full: bool) -> pa.RecordBatch:
        was_short = was_full and rows < self.out[record_kernels.ROWS_MAX]
        arrays = [self._array(name, rows, was_short) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, rows: int, was_short: bool) -> pa.Array:
        if name in self._constants:
            return self._constants[name][:rows]
        if name in self.capacities:
            used, nulls = self.state[list(_STRING_STATES[name])].tolist()
            self.capacities[name].learn(used, was_full=was_short)
            return self._strings[name].array(rows, used, nulls)
        if name == "headers":
            return self._headers(rows)
        return self._numbers[name].array(rows)

    def _headers(self, rows: int) -> pa.Array:
        counts = self.state[record_kernels.HEADERS : record_kernels.HEADER_VALUE_BYTES + 1].tolist()
        headers, key_bytes, value_bytes = counts
        lists = Strings(pa.binary(), rows, 0)
        keys, values = Strings(pa.binary(), headers, key_bytes), Strings(pa.binary(), headers, value_bytes)
        null_lists, null_values = record_kernels.gather_headers(
            self._spans.ctypes.data, rows, lists.words[0], lists.words[2], *keys.words[:2], *values.words[:3], headers
        )
        children = [_texts(keys.array(headers, key_bytes, 0)), values.array(headers, value_bytes, null_values)]
        entries = pa.StructArray.from_arrays(children, fields=list(HEADER_TYPE.value_type))
        return lists.list_array(HEADER_TYPE, rows, entries, null_lists)


def _texts(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Clients may write any bytes there; like Kafka's own reader we replace what is not UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
