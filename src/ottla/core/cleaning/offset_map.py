"""The latest offset of each key, in fixed memory: open addressing over slots of 24 bytes, the key's MD5 and its offset.

Two keys with the same MD5 would be one, as in Apache Kafka. It decides nothing about records. A compiled backend works on the same
`memory`; what it must keep in step are the plain attributes. Source: Kafka's `SkimpyOffsetMap`.
"""

import mmap
import sys
from contextlib import suppress
from hashlib import md5
from struct import Struct
from typing import Final

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
