"""The records section of a batch in memory, all of it or the part that is being read: what was read is overwritten by what follows.

Of records it only knows that the next one must be complete. However large the section, memory holds a part of it, or one record if that is
larger.
"""

import mmap
from collections.abc import Callable
from typing import Final, cast

import numpy as np

from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import read_varint
from ottla.protocol.records.compression import Inflated

READ_BYTES: Final = 2 * 1024 * 1024
# The bytes that show a record to be damaged may lie this far behind its end: its numbers are read before they are found to be outside.
_BEHIND_BYTES: Final = 64

ReadInto = Callable[[memoryview], int]
"""Read the next bytes of a section into a buffer: how many, 0 behind the last one. PeerError when there can be no more."""


class SectionWindow:
    """`view` holds the bytes from `dropped` on that were not read yet; `is_all`: they are the last ones.

    `read_into` returns at most `bytes_max` bytes in all.
    """

    def __init__(self, read_into: ReadInto, bytes_max: int, *, read_bytes: int = READ_BYTES) -> None:
        # Pages of a mapping that are not written take no memory. One byte more than can come: there is always space to ask for more.
        self._memory = memoryview(mmap.mmap(-1, bytes_max + 1))
        self._read_into = read_into
        self._bytes_max = bytes_max
        self._read_bytes = read_bytes
        self._size = 0
        self.dropped = 0
        self.is_all = False
        self._fill(read_bytes)

    @classmethod
    def whole(cls, section: Inflated) -> "SectionWindow":
        """A section that is in memory."""
        window = cls.__new__(cls)
        window._memory = memoryview(section)
        window._size = len(section)
        window.dropped = 0
        window.is_all = True
        return window

    @property
    def view(self) -> memoryview:
        return self._memory[: self._size]

    @property
    def address(self) -> int:
        """Where `view` begins, for compiled code; any address where it is empty."""
        return int(np.frombuffer(self._memory, np.uint8).ctypes.data) if len(self._memory) else 0

    def holds_record(self, position: int) -> bool:
        """Whether `view` has all by which the record at `position` can be judged."""
        return self.is_all or self._size - position >= self._needed(position)

    def advance(self, position: int) -> None:
        """Drop the bytes before `position`: `view` begins there from now on, and has more bytes at its end."""
        rest = self._size - position
        needed = self._needed(position)
        self._memory[:rest] = self._memory[position : self._size]
        self._size = rest
        self.dropped += position
        self._fill(max(needed, self._read_bytes))

    def count_bytes(self) -> int:
        """The size of the section in bytes; those behind `view` are read and dropped."""
        behind = 0
        while not self.is_all:
            count = self._read_into(self._memory[self._size : self._size + self._read_bytes])
            behind += count
            self.is_all = count == 0
        return self.dropped + self._size + behind

    def _needed(self, position: int) -> int:
        if self._size - position < _BEHIND_BYTES:
            return _BEHIND_BYTES
        try:
            length, start = read_varint(cast(bytes, self._memory), position)
        except PeerError:
            return 0
        end = start - position + length + _BEHIND_BYTES
        # A length that is negative or larger than all that can come is a fault that needs no more bytes.
        return end if 0 <= length <= self._bytes_max - self.dropped - start else 0

    def _fill(self, size: int) -> None:
        while self._size < size and not self.is_all:
            count = self._read_into(self._memory[self._size : size])
            self._size += count
            self.is_all = count == 0
