"""The compiled map against the plain one, slot by slot, also where probing has to go far."""

import random

import numpy as np
from numba import njit

from ottla.columnar.cleaning import offset_table as table
from ottla.columnar.primitives.memory import address_of
from ottla.core.cleaning import offset_map as plain
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap


@njit
def _put(memory, slots, digest, first, offset):
    return table.put(address_of(memory), slots, address_of(digest), first, offset)


@njit
def _offset_of(memory, slots, digest, first):
    return table.offset_of(address_of(memory), slots, address_of(digest), first)


@njit
def _next(digest, attempt, slots):
    return table._next_slot(address_of(digest), attempt, slots)


def _first(digest: bytes, slots: int) -> int:
    found = np.empty(1, np.int64)
    table.first_slots(np.frombuffer(digest, np.uint64).reshape(1, 2), slots, found)
    return int(found[0])


def test_probes_as_the_plain_map_does():
    rng = random.Random(1)
    # The smallest number has no absolute value in 32 bits, and the last window runs over the largest one.
    corners = [b"\x80" + bytes(15), bytes(12) + b"\x7f\xff\xff\xfe", b"\xff" * 16, bytes(16)]
    for digest in corners + [rng.randbytes(16) for _ in range(200)]:
        for slots in (1, 7, 5592405):
            assert _first(digest, slots) == plain.probe(digest, 0) % slots
            for attempt in range(1, 40):
                assert _next(np.frombuffer(digest, np.uint8), attempt, slots) == plain.probe(digest, attempt) % slots


def test_fills_the_same_slots_until_there_is_one_left(monkeypatch):
    rng = random.Random(2)
    slots = 61
    ours, theirs = np.zeros(slots * SLOT_BYTES, np.uint8), OffsetMap(slots * SLOT_BYTES, load_factor=60.5 / 61)
    digests = [rng.randbytes(16) for _ in range(60)]

    class Md5:
        """The key is its own digest."""

        def __init__(self, key: bytes, **_: object) -> None:
            self.digest = lambda: key

    monkeypatch.setattr(plain, "md5", Md5)
    for offset in range(200):
        digest = digests[offset % 60] if offset < 60 else rng.choice(digests)
        entries = theirs.entries
        theirs.entries_max = 1000  # the plain map refuses known keys too when it is full
        assert theirs.put(digest, offset * 2**40)
        assert _put(ours, slots, np.frombuffer(digest, np.uint8), _first(digest, slots), offset * 2**40) == theirs.entries - entries
    assert ours.tobytes() == bytes(theirs.memory)
    for digest in [*digests, *(rng.randbytes(16) for _ in range(60))]:
        assert _offset_of(ours, slots, np.frombuffer(digest, np.uint8), _first(digest, slots)) == theirs.get(digest)
