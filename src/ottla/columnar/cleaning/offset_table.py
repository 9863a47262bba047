"""The offset map's slots, as compiled code sees them: the same memory and the same probing as core/cleaning/offset_map.py.

It finds slots and fills them; its callers decide when the map is full, and what an offset means. Three 64-bit words a slot: the
digest's two, and the offset, big-endian. Arguments are addresses: `memory_at` of the map's memory, `digest_at` of a digest.
"""

import numpy as np

from ottla.columnar.primitives.compilation import Array, Int, helper, jit
from ottla.columnar.primitives.memory import byte_at, put_word, swapped, word_at
from ottla.core.cleaning.offset_map import LAST_WINDOW, NO_OFFSET, SLOT_BYTES

_INT32_MIN = -(1 << 31)


@helper
def _slot_of(number: Int, slots: Int) -> Int:
    """As `offset_map.probe`: the absolute value of a signed number of 32 bits, modulo the slots; the smallest number has none."""
    return np.int64(0) if number == _INT32_MIN else np.int64(np.uint64(abs(number)) % np.uint64(slots))


@jit
def first_slots(digests: Array, slots: Int, found: Array) -> None:
    """The first slot to probe for each key. digests: uint64, two columns."""
    for row in range(digests.shape[0]):
        found[row] = _slot_of(np.int64(swapped(digests[row, 0])) >> 32, slots)


@helper
def _next_slot(digest_at: Int, attempt: Int, slots: Int) -> Int:
    """The slot to probe in a further attempt: other windows of the digest, and at last one slot after the other."""
    number = np.int64(0)
    for byte in range(4):
        number = number << 8 | byte_at(digest_at + min(attempt, LAST_WINDOW) + byte)
    number += max(0, attempt - LAST_WINDOW) - _INT32_MIN
    return _slot_of((number & 0xFFFFFFFF) + _INT32_MIN, slots)


@helper
def _is_of(slot_at: Int, digest_at: Int) -> Int:
    return word_at(slot_at) == word_at(digest_at) and word_at(slot_at + 8) == word_at(digest_at + 8)


@helper
def _find(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int) -> Int:
    """The address of the slot that holds the digest, or of the free one for it. There always is one: the map is never completely full."""
    attempt = 0
    slot_at = memory_at + first_slot * SLOT_BYTES
    while not _is_of(slot_at, digest_at):
        if word_at(slot_at) | word_at(slot_at + 8) | word_at(slot_at + 16) == np.uint64(0):
            break
        attempt += 1
        slot_at = memory_at + _next_slot(digest_at, attempt, slots) * SLOT_BYTES
    return slot_at


@helper
def offset_of(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int) -> Int:
    """The latest offset of a key, NO_OFFSET when the map does not have it."""
    slot_at = _find(memory_at, slots, digest_at, first_slot)
    return np.int64(swapped(word_at(slot_at + 16))) if _is_of(slot_at, digest_at) else np.int64(NO_OFFSET)


@helper
def put(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int, offset: Int) -> Int:
    """Set the offset of a key; 1 when that took a free slot, otherwise 0."""
    slot_at = _find(memory_at, slots, digest_at, first_slot)
    is_new = not _is_of(slot_at, digest_at)
    if is_new:
        put_word(slot_at, word_at(digest_at))
        put_word(slot_at + 8, word_at(digest_at + 8))
    put_word(slot_at + 16, swapped(np.uint64(offset)))
    return np.int64(is_new)
