"""The offset map's slots, as compiled code sees them: the same memory and the same probing as core/cleaning/offset_map.py.

It finds slots and fills them; when the map is full, and what an offset means, is decided by its callers. Three 64-bit words a slot: the
digest's two, and the offset, big-endian.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.columnar.kernels import Array, Int, _inline, _jit
from ottla.core.cleaning.offset_map import LAST_WINDOW, NO_OFFSET, SLOT_BYTES

SLOT_WORDS = SLOT_BYTES // 8
_INT32_MIN = -(1 << 31)
PREFETCH_ROWS = 16
"""So many keys ahead a slot is fetched: the map is larger than any cache, and waiting for memory would cost more than all the rest."""


def _swapped_code(typing_context: Any, word: Any) -> Any:
    """The word's bytes in reverse order."""
    signature = types.uint64(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return signature, generate


def _prefetch_code(typing_context: Any, memory: Any, at: Any) -> Any:
    """Ask for the cache line that memory[at] (flat) lies in."""
    signature = types.void(memory, types.int64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        data = context.make_array(sig.args[0])(context, builder, arguments[0]).data
        target = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [target.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [target.type], kind)
        builder.call(prefetch, [target, number(0), number(3), number(1)])  # for reading, to keep, data
        return context.get_dummy_value()

    return signature, generate


swapped: Any = intrinsic(_swapped_code)
_prefetch: Any = intrinsic(_prefetch_code)


@_inline
def _slot_of(number: Int, slots: Int) -> Int:
    """What `offset_map.probe` makes of a number of 32 bits with its sign, modulo the slots: the smallest one has no absolute value."""
    return np.int64(0) if number == _INT32_MIN else np.int64(np.uint64(abs(number)) % np.uint64(slots))


@_jit
def first_slots(digests: Array, slots: Int, found: Array) -> None:
    """The slot to look at first for each key. digests: uint64, two columns."""
    for row in range(digests.shape[0]):
        found[row] = _slot_of(np.int64(swapped(digests[row, 0])) >> 32, slots)


@_inline
def prefetch(memory: Array, firsts: Array, row: Int) -> None:
    """Have the slot brought into the cache that will be looked at for the key of this row; nothing when there is no such row."""
    if row < firsts.size:
        _prefetch(memory, firsts[row] * SLOT_WORDS)


@_jit
def _next_slot(digests: Array, row: Int, attempt: Int, slots: Int) -> Int:
    """The slot to look at in a further attempt: other windows of the digest, and at last one slot after the other."""
    start = min(attempt, LAST_WINDOW)
    number = np.int64(0)
    for byte in range(start, start + 4):
        number = number << 8 | np.int64((digests[row, byte >> 3] >> np.uint64(8 * (byte & 7))) & np.uint64(0xFF))
    number += max(0, attempt - LAST_WINDOW) - _INT32_MIN
    return _slot_of((number & 0xFFFFFFFF) + _INT32_MIN, slots)


@_inline
def find(memory: Array, digests: Array, firsts: Array, row: Int) -> Int:
    """The slot that holds the digest, or the free one where it would go. There always is one: the map is never quite full.

    memory: uint64, (slots, 3). digests: uint64, two columns. firsts: what `first_slots` found.
    """
    attempt = 0
    slot = firsts[row]
    while not (memory[slot, 0] == digests[row, 0] and memory[slot, 1] == digests[row, 1]):
        if memory[slot, 0] == 0 and memory[slot, 1] == 0 and memory[slot, 2] == 0:
            break
        attempt += 1
        slot = _next_slot(digests, row, attempt, memory.shape[0])
    return slot


@_inline
def offset_of(memory: Array, digests: Array, firsts: Array, row: Int) -> Int:
    """The latest offset of a key, NO_OFFSET when the map does not know it."""
    slot = find(memory, digests, firsts, row)
    if memory[slot, 0] == digests[row, 0] and memory[slot, 1] == digests[row, 1]:
        return np.int64(swapped(memory[slot, 2]))
    return np.int64(NO_OFFSET)


@_inline
def put(memory: Array, digests: Array, firsts: Array, row: Int, offset: Int) -> Int:
    """Set the offset of a key; 1 when that took a free slot, otherwise 0."""
    slot = find(memory, digests, firsts, row)
    added = 0
    if not (memory[slot, 0] == digests[row, 0] and memory[slot, 1] == digests[row, 1]):
        memory[slot, 0] = digests[row, 0]
        memory[slot, 1] = digests[row, 1]
        added = 1
    memory[slot, 2] = swapped(np.uint64(offset))
    return added
