"""Checksums for the cleaner's kernels: MD5 of many keys at once.

MD5 (RFC 1321) is one long chain of steps that wait for each other, so sixteen keys go through
it side by side, one in each element of a vector: that takes hardly longer than a single one. MD5 reads little-endian words, as all
processors do that Numba writes code for.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.columnar.primitives.compilation import Array, Int, helper, jit
from ottla.columnar.primitives.memory import address_of, copy, put_byte, put_word

KEYS_AT_ONCE = 16
BLOCK_BYTES = 64
DIGEST_BYTES = 16
_LENGTH_BYTES = 8
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_ADDENDS = [int(abs(math.sin(step + 1)) * 2**32) for step in range(64)]
_ROTATIONS = [7, 12, 17, 22] * 4 + [5, 9, 14, 20] * 4 + [4, 11, 16, 23] * 4 + [6, 10, 15, 21] * 4


def _round(builder: Any, step: int, b: Any, c: Any, d: Any) -> tuple[Any, int]:
    """The mixing function of a step and the number of the word that it adds."""
    if step < 16:
        return builder.xor(d, builder.and_(b, builder.xor(c, d))), step
    if step < 32:
        return builder.xor(c, builder.and_(d, builder.xor(b, c))), (5 * step + 1) % 16
    if step < 48:
        return builder.xor(builder.xor(b, c), d), (3 * step + 5) % 16
    return builder.xor(c, builder.or_(b, builder.not_(d))), 7 * step % 16


def _md5_block_code(typing_context: Any, state_at: Any, words_at: Any) -> Any:
    """Mix one block of every key into the state: addresses of the state (uint32, 4 rows of vectors) and the blocks (16 rows of vectors)."""
    vector = ir.VectorType(ir.IntType(32), KEYS_AT_ONCE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state_at, words_at = (builder.inttoptr(address, vector.as_pointer()) for address in arguments)

        def row(first: Any, number: int) -> Any:
            return builder.gep(first, [ir.Constant(ir.IntType(64), number)])

        def splat(number: int) -> Any:
            return ir.Constant(vector, [number] * KEYS_AT_ONCE)

        before = [builder.load(row(state_at, number), align=4) for number in range(4)]
        block = [builder.load(row(words_at, number), align=4) for number in range(16)]
        a, b, c, d = before
        for step in range(64):
            mixed, word = _round(builder, step, b, c, d)
            total = builder.add(builder.add(a, builder.add(block[word], splat(_ADDENDS[step]))), mixed)
            left, right = splat(_ROTATIONS[step]), splat(32 - _ROTATIONS[step])
            rotated = builder.or_(builder.shl(total, left), builder.lshr(total, right))
            a, b, c, d = d, builder.add(b, rotated), b, c
        for number, (old, new) in enumerate(zip(before, (a, b, c, d), strict=True)):
            builder.store(builder.add(old, new), row(state_at, number), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


_md5_block: Any = intrinsic(_md5_block_code)


@helper
def _padded_bytes(length: Int) -> Int:
    """MD5's padding of a key: a byte and the length follow the key, and the last block is filled."""
    return max(length, 0) + 1 + _LENGTH_BYTES


@helper
def _fill_block(row_at: Int, key_at: Int, length: Int, block_at: Int) -> None:
    """Write the 64 bytes from `block_at` on of a key as MD5 pads it: the key, a byte 0x80, zeros, the length in bits."""
    for word in range(0, BLOCK_BYTES, 8):
        put_word(row_at + word, np.uint64(0))
    copy(row_at, key_at + block_at, min(max(length - block_at, 0), BLOCK_BYTES))
    if block_at <= length < block_at + BLOCK_BYTES:
        put_byte(row_at + length - block_at, 0x80)
    if block_at < length + 1 + _LENGTH_BYTES <= block_at + BLOCK_BYTES:
        put_word(row_at + BLOCK_BYTES - _LENGTH_BYTES, np.uint64(length) << np.uint64(3))


@jit
def md5_keys(buffer: Array, spans: Array, digests: Array) -> None:
    """The MD5 of each byte range of `buffer`: `spans` has (position, length) in its first two columns, checked by the caller; a length
    of -1 counts as 0. Fills `digests` (uint32, one row of 4 little-endian words a range)."""
    buffer_at = address_of(buffer)
    row = np.zeros(16, np.uint32)
    words = np.zeros((16, KEYS_AT_ONCE), np.uint32)
    state = np.empty((4, KEYS_AT_ONCE), np.uint32)
    row_at, state_at, words_at = address_of(row), address_of(state), address_of(words)
    for first in range(0, spans.shape[0], KEYS_AT_ONCE):
        keys = min(KEYS_AT_ONCE, spans.shape[0] - first)
        longest = np.int64(0)
        for key in range(keys):
            longest = max(longest, spans[first + key, 1])
        for number in range(4):
            state[number, :] = _START[number]
        for block_at in range(0, _padded_bytes(longest), BLOCK_BYTES):
            for key in range(keys):
                _fill_block(row_at, buffer_at + spans[first + key, 0], max(spans[first + key, 1], 0), block_at)
                for word in range(16):
                    words[word, key] = row[word]
            _md5_block(state_at, words_at)
            for key in range(keys):
                # Shorter keys continue with zeros, and their result is not used again.
                if block_at < _padded_bytes(spans[first + key, 1]) <= block_at + BLOCK_BYTES:
                    for number in range(4):
                        digests[first + key, number] = state[number, key]
