"""How records become Arrow batches, piece by piece: a kernel is called, room is made when it is full, and what is ready is handed out.

It decides when an Arrow batch ends: at `rows_max` rows or when there is no room for the next record. Which columns there are, and which
kernel fills them, its callers say.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from ottla.columnar import kernels, record_kernels
from ottla.columnar.batches import Array, Piece, wrong_checksum
from ottla.core.errors import PeerError

Kernel = Callable[[int, int, int, int, int, int, int, int, int], int]
"""(source_at, table_at, tasks_at, is_checked, batches, first_offset, end_offset, out_at, state_at) -> status; see record_kernels.decode."""


class Columns(Protocol):
    """Columns that a kernel fills."""

    out: Array
    """The words by which the kernel finds the columns (int64)."""
    state: Array
    """The words that say how much of them is filled; those of the cursor come first."""
    is_of_one_piece: bool
    """Whether the rows must be taken before the next piece, because they point into it."""

    def make_room(self, rows_max: int, bytes_max: int) -> None:
        """New, empty columns, for as many as is sensible of so many rows and bytes of data that may come."""

    def make_room_for_one(self, bytes_max: int) -> None:
        """New, empty columns for a single record of so many bytes."""

    def take(self, rows: int, *, was_full: bool) -> pa.RecordBatch:
        """What is filled, as an Arrow batch."""


def decode_pieces(kernel: Kernel, columns: Columns, pieces: Iterable[Piece], bounds: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """The records whose offsets are inside `bounds` (first, end exclusive). Raises PeerError; good records before it come out first."""
    state = columns.state
    state[:] = 0
    out_at, state_at = columns.out.ctypes.data, state.ctypes.data
    has_room = False
    for piece in pieces:
        state[record_kernels.CURSOR_BATCH] = state[record_kernels.CURSOR_POSITION] = 0
        work = (piece.source_at, piece.table.ctypes.data, piece.tasks.ctypes.data, int(piece.is_checked), len(piece.table))
        status = record_kernels.FULL
        while status == record_kernels.FULL:
            if not has_room:
                columns.make_room(piece.rows_max, piece.bytes_max)
                has_room = True
            status = kernel(*work, *bounds, out_at, state_at)
            rows = int(state[record_kernels.ROWS])
            if rows and (status != kernels.OK or columns.is_of_one_piece):
                yield columns.take(rows, was_full=status == record_kernels.FULL)
                state[record_kernels.ROWS :] = 0
                has_room = False
            elif status == record_kernels.FULL:
                # A single record that is larger than what a batch holds otherwise.
                batch = piece.table[state[record_kernels.CURSOR_BATCH]]
                columns.make_room_for_one(int(batch[kernels.END] - batch[kernels.POSITION]))
        if status != kernels.OK:
            raise _problem(piece.table[state[record_kernels.CURSOR_BATCH]], status)
    if state[record_kernels.ROWS]:
        yield columns.take(int(state[record_kernels.ROWS]), was_full=False)


def _problem(batch: Array, status: int) -> PeerError:
    if status == kernels.BAD_CRC:
        return wrong_checksum(batch)
    if status == kernels.BAD_COUNT:
        return PeerError(f"{batch[kernels.RECORD_COUNT]} records declared in {batch[kernels.END] - batch[kernels.POSITION]} bytes")
    return PeerError(kernels.STATUS_TEXTS[status])
