"""The indexes of a segment as values and as Kafka's bytes: offsets, times, aborted transactions. No file is touched here.

Offset index: 8-byte entries (last offset of a batch relative to the segment's base, position of that batch), so every entry lies at a
batch's start. Time index: 12-byte entries (largest timestamp so far in milliseconds, relative last offset of the batch that reached it).
Both only rise; when an entry is due, the segment decides. The `.txnindex` file lists the transactions that were aborted in the segment, in
the order of their markers (KIP-98).
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_IS_LITTLE: Final = sys.byteorder == "little"

assert array("I").itemsize == 4 and array("q").itemsize == 8, "the index files are made of these"  # noqa: PT018


class OffsetIndex:
    """Where batches lie: `relative_offsets[i]` is the last offset of the batch at `positions[i]`."""

    __slots__ = ("positions", "relative_offsets")

    def __init__(self) -> None:
        self.relative_offsets = array("I")
        self.positions = array("I")

    def __len__(self) -> int:
        return len(self.positions)

    def append(self, relative_offset: int, position: int) -> None:
        # What is searched grows last: another thread that finds an entry there finds the rest of it, too.
        self.positions.append(position)
        self.relative_offsets.append(relative_offset)

    def entry_for(self, relative_offset: int) -> tuple[int, int]:
        """(last offset, position) of the batch that ends at or before `relative_offset`, the nearest known; (-1, 0) without one."""
        entry = bisect_right(self.relative_offsets, relative_offset) - 1
        return (self.relative_offsets[entry], self.positions[entry]) if entry >= 0 else (-1, 0)

    def position_for(self, relative_offset: int) -> int:
        """The start of a batch that ends at or before `relative_offset`, the nearest known; 0 without one."""
        return self.entry_for(relative_offset)[1]

    def batch_start_at_or_before(self, position: int) -> int:
        """The nearest known start of a batch at or before `position`; 0 without one."""
        entry = bisect_right(self.positions, position)
        return self.positions[entry - 1] if entry else 0

    def encode(self, from_entry: int = 0) -> bytes:
        """The entries from `from_entry` on, as they lie in `.index`."""
        words = array("I", bytes(OFFSET_ENTRY_BYTES * (len(self) - from_entry)))
        words[0::2] = self.relative_offsets[from_entry:]
        words[1::2] = self.positions[from_entry:]
        return _big_endian(words)

    @classmethod
    def decode(cls, data: bytes, *, log_bytes: int) -> "OffsetIndex | None":
        """The index in these bytes, or None when they cannot be one of a log of `log_bytes` (then it is rebuilt)."""
        if len(data) % OFFSET_ENTRY_BYTES:
            return None
        words = _words(data)
        index = cls()
        index.relative_offsets, index.positions = words[0::2], words[1::2]
        if not _rises(index.relative_offsets) or not _rises(index.positions):
            return None
        if index.positions and (index.positions[0] == 0 or index.positions[-1] >= log_bytes):
            return None
        return index


class TimeIndex:
    """When: `timestamps_ms[i]` is the largest timestamp up to the batch whose last offset is `relative_offsets[i]`."""

    __slots__ = ("relative_offsets", "timestamps_ms")

    def __init__(self) -> None:
        self.timestamps_ms = array("q")
        self.relative_offsets = array("I")

    def __len__(self) -> int:
        return len(self.timestamps_ms)

    def append_if_later(self, timestamp_ms: int, relative_offset: int) -> None:
        """An entry is only worth its bytes when time has moved."""
        if timestamp_ms > (self.timestamps_ms[-1] if self.timestamps_ms else -1):
            self.relative_offsets.append(relative_offset)
            self.timestamps_ms.append(timestamp_ms)  # last, as above

    def relative_offset_for(self, timestamp_ms: int) -> int:
        """No batch before the one that holds this offset reaches `timestamp_ms`; 0 when nothing is known."""
        entry = bisect_right(self.timestamps_ms, timestamp_ms)
        return self.relative_offsets[entry - 1] if entry else 0

    def encode(self, from_entry: int = 0) -> bytes:
        """The entries from `from_entry` on, as they lie in `.timeindex`."""
        halves = array("I", self.timestamps_ms[from_entry:].tobytes())
        words = array("I", bytes(TIME_ENTRY_BYTES * (len(self) - from_entry)))
        words[0::3] = halves[1::2] if _IS_LITTLE else halves[0::2]
        words[1::3] = halves[0::2] if _IS_LITTLE else halves[1::2]
        words[2::3] = self.relative_offsets[from_entry:]
        return _big_endian(words)

    @classmethod
    def decode(cls, data: bytes) -> "TimeIndex | None":
        """The index in these bytes, or None when they cannot be one (then it is rebuilt)."""
        if len(data) % TIME_ENTRY_BYTES:
            return None
        words = _words(data)
        halves = array("I", bytes(8 * (len(words) // 3)))
        halves[0::2] = words[1::3] if _IS_LITTLE else words[0::3]
        halves[1::2] = words[0::3] if _IS_LITTLE else words[1::3]
        index = cls()
        index.timestamps_ms, index.relative_offsets = array("q", halves.tobytes()), words[2::3]
        if not _rises(index.timestamps_ms) or not _rises(index.relative_offsets):
            return None
        if index.timestamps_ms and index.timestamps_ms[0] < 0:
            return None
        return index


def _words(data: bytes) -> "array[int]":
    words = array("I", data)
    if _IS_LITTLE:
        words.byteswap()
    return words


def _big_endian(words: "array[int]") -> bytes:
    if _IS_LITTLE:
        words.byteswap()
    return words.tobytes()


def _rises(numbers: "array[int]") -> bool:
    return all(map(int.__lt__, numbers, numbers[1:]))


_VERSION: Final = 0
TRANSACTION_ENTRY: Final = Struct(">hqqqq")
"""Version, then the fields of `AbortedTransaction`."""


class AbortedTransaction(NamedTuple):
    """`first_offset` is the transaction's first record, `last_offset` its marker; `last_stable_offset` as it was after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The entries as they lie in `.txnindex`: 34 bytes each."""
    return b"".join(TRANSACTION_ENTRY.pack(_VERSION, *transaction) for transaction in aborted)


def decode_transactions(data: bytes) -> list[AbortedTransaction] | None:
    """The entries of a `.txnindex` file; None when it is damaged (then it is rebuilt from the log)."""
    if len(data) % TRANSACTION_ENTRY.size:
        return None
    found, last = [], -1
    for version, *fields in TRANSACTION_ENTRY.iter_unpack(data):
        transaction = AbortedTransaction(*fields)
        if version > _VERSION or transaction.last_offset <= last or transaction.first_offset > transaction.last_offset:
            return None
        found.append(transaction)
        last = transaction.last_offset
    return found
