"""Space for Arrow columns that kernels fill by address, and the columns made of it, with no copy.

The memory is of Arrow's own pool, which reuses it: fresh pages would cost as much as the copying. It does not read records.
"""

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow.decoding.record_kernels import SLACK_BYTES

BYTES_MIN = 64 * 1024
BYTES_MAX = 4 * 1024 * 1024
"""Most data of a column of byte strings in one Arrow batch, but for a single larger string."""
_HALF_BYTES = 4
_GROWTH = 4


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
