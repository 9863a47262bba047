"""The base of decoders: a kernel is called slice by slice, space is allocated when it is full, and Arrow batches are yielded.

It decides when an Arrow batch ends: at `rows_max` rows or when there is no space for the next record. Which columns there are, and which
kernel fills them, its callers say.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow.decoding import batch_headers, record_kernels
from ottla.protocol.arrow.decoding.aborted_batches import Aborted
from ottla.protocol.arrow.decoding.arrow_buffers import Capacity
from ottla.protocol.arrow.decoding.batches import Array, Batches, BatchSlice, scan, slices, wrong_checksum
from ottla.protocol.errors import PeerError
from ottla.protocol.records.record import RECORD_BYTES_MIN

OFFSET_END_MAX = 2**63 - 1
ROWS_MAX = 16_384
"""Most rows of an Arrow batch: enough to hide the cost of a call, few enough to stay in the processor's cache."""

Kernel = Callable[[int, int, int, int, int, int, int, int, int], int]
"""(source_at, table_at, tasks_at, is_checked, batches, first_offset, end_offset, out_at, state_at) -> status; see record_kernels.decode."""


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
    """Decodes the fetched bytes of one partition; for one thread, and one decoding after the other."""

    def __init__(self, kernel: Kernel, columns: Columns) -> None:
        self.schema, self.rows_max = columns.schema, columns.rows_max
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
        yield from _decode_slices(self._kernel, self._columns, slices(batches, bounds, aborted), bounds)


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
            if rows and (status != batch_headers.OK or columns.is_of_one_slice):
                yield columns.take(rows, was_full=status == record_kernels.FULL)
                state[record_kernels.ROWS :] = 0
                has_space = False
            elif status == record_kernels.FULL:
                # A single record that is larger than the space of a batch.
                batch = part.table[state[record_kernels.CURSOR_BATCH]]
                columns.make_space_for_one(int(batch[batch_headers.END] - batch[batch_headers.POSITION]))
        if status != batch_headers.OK:
            raise _problem(part.table[state[record_kernels.CURSOR_BATCH]], status)
    if state[record_kernels.ROWS]:
        yield columns.take(int(state[record_kernels.ROWS]), was_full=False)


def _problem(batch: Array, status: int) -> PeerError:
    if status == batch_headers.BAD_CRC:
        return wrong_checksum(batch)
    if status == batch_headers.BAD_COUNT:
        size = batch[batch_headers.END] - batch[batch_headers.POSITION]
        return PeerError(f"{batch[batch_headers.RECORD_COUNT]} records declared in {size} bytes")
    return PeerError(batch_headers.STATUS_TEXTS[status])
