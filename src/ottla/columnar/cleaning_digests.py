"""Checksums for the cleaner's kernels: MD5 of many keys at once, and CRC-32C of a range of bytes.

It computes and never decides. MD5 (RFC 1321) is one long chain of steps that wait for each other, so sixteen keys go through
it side by side, one in each lane of a vector: that costs hardly more than a single one. MD5 reads little-endian words, as all processors do
that Numba writes code for. CRC-32C uses the processor's own instruction where it has one, and tables otherwise.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from ottla.columnar.kernels import Array, Int, _inline, _jit, _memcpy

LANES = 16
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


def _md5_block_code(typing_context: Any, state: Any, words: Any) -> Any:
    """Mix one block of every lane into `state` (uint32, 4 rows of LANES); `words` holds the blocks (uint32, 16 rows of LANES)."""
    signature = types.void(state, words)
    vector = ir.VectorType(ir.IntType(32), LANES)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        state_at, words_at = (context.make_array(kind)(context, builder, value).data for kind, value in zip(sig.args, arguments, strict=True))

        def row(first: Any, number: int) -> Any:
            return builder.bitcast(builder.gep(first, [ir.Constant(ir.IntType(64), number * LANES)]), vector.as_pointer())

        def every_lane(number: int) -> Any:
            return ir.Constant(vector, [number] * LANES)

        before = [builder.load(row(state_at, number), align=4) for number in range(4)]
        block = [builder.load(row(words_at, number), align=4) for number in range(16)]
        a, b, c, d = before
        for step in range(64):
            mixed, word = _round(builder, step, b, c, d)
            total = builder.add(builder.add(a, builder.add(block[word], every_lane(_ADDENDS[step]))), mixed)
            left, right = every_lane(_ROTATIONS[step]), every_lane(32 - _ROTATIONS[step])
            rotated = builder.or_(builder.shl(total, left), builder.lshr(total, right))
            a, b, c, d = d, builder.add(b, rotated), b, c
        for number, (old, new) in enumerate(zip(before, (a, b, c, d), strict=True)):
            builder.store(builder.add(old, new), row(state_at, number), align=4)
        return context.get_dummy_value()

    return signature, generate


_md5_block: Any = intrinsic(_md5_block_code)


@_jit
def md5_keys(buffer: Array, spans: Array, digests: Array) -> None:
    """The MD5 of each byte range of `buffer`: `spans` has (position, length) in its first two columns, checked by the caller; a length
    of -1 counts as 0. Fills `digests` (uint32, one row of 4 little-endian words a range)."""
    count = spans.shape[0]
    rows = np.zeros((LANES, BLOCK_BYTES), np.uint8)
    row_words = rows.view(np.uint32)
    words = np.zeros((16, LANES), np.uint32)
    state = np.empty((4, LANES), np.uint32)
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for number in range(4):
            state[number, :] = _START[number]
        left = np.int64(0)
        for lane in range(lanes):
            left = max(left, spans[first + lane, 1])
        left += 1 + _LENGTH_BYTES
        block_at = 0
        while left > 0:
            for lane in range(lanes):
                length = max(spans[first + lane, 1], 0)
                _fill_block(rows, lane, buffer, spans[first + lane, 0], length, block_at)
                for word in range(16):
                    words[word, lane] = row_words[lane, word]
            _md5_block(state, words)
            block_at += BLOCK_BYTES
            left -= BLOCK_BYTES
            for lane in range(lanes):
                # Lanes that ended before go on with zeros, and nobody looks at them again.
                padded = max(spans[first + lane, 1], 0) + 1 + _LENGTH_BYTES
                if block_at - BLOCK_BYTES < padded <= block_at:
                    for number in range(4):
                        digests[first + lane, number] = state[number, lane]


@_inline
def _fill_block(rows: Array, lane: Int, buffer: Array, start: Int, length: Int, block_at: Int) -> None:
    """The 64 bytes from `block_at` on of a key as MD5 pads it: the key, a byte 0x80, zeros, the length in bits."""
    taken = min(max(length - block_at, 0), BLOCK_BYTES)
    rows[lane, :] = 0
    _memcpy(rows, lane * BLOCK_BYTES, buffer, start + block_at, taken)
    if block_at <= length < block_at + BLOCK_BYTES:
        rows[lane, length - block_at] = 0x80
    if block_at < length + 1 + _LENGTH_BYTES <= block_at + BLOCK_BYTES:
        bits = length << 3
        for byte in range(_LENGTH_BYTES):
            rows[lane, BLOCK_BYTES - _LENGTH_BYTES + byte] = np.uint8((bits >> (8 * byte)) & 0xFF)


def _crc_tables() -> Array:
    """Eight tables of CRC-32C (polynomial 0x1EDC6F41, reflected): table t advances a byte over t more zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for table in range(1, 8):
        before = tables[table - 1]
        tables[table] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_TABLES = _crc_tables()


def _load_word_code(typing_context: Any, buffer: Any, at: Any) -> Any:
    """The eight bytes at `at` as an unsigned number of the processor's own order; no alignment is needed."""
    signature = types.uint64(buffer, types.int64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, arguments[0]).data
        word = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return signature, generate


def _crc_instruction_code(typing_context: Any, crc: Any, word: Any) -> Any:
    """CRC-32C over eight more bytes, by SSE 4.2."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        instruction = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), ir.FunctionType(number, [number, number]))
        return builder.call(instruction, arguments)

    return signature, generate


def _crc_by_tables(crc: Int, word: Int) -> Int:
    """CRC-32C over eight more bytes, by eight look-ups."""
    mixed = np.uint64(crc) ^ np.uint64(word)
    result = np.uint32(0)
    for byte in range(8):
        result ^= _TABLES[7 - byte, (mixed >> np.uint64(8 * byte)) & np.uint64(0xFF)]
    return np.uint64(result)


load_word: Any = intrinsic(_load_word_code)
# The names that LLVM gives to what this processor can do; NUMBA_CPU_FEATURES may take some away.
_HAS_INSTRUCTION = "+sse4.2" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
_crc_word: Any = intrinsic(_crc_instruction_code) if _HAS_INSTRUCTION else njit(inline="always")(_crc_by_tables)


@_jit
def crc32c(buffer: Array, start: Int, end: Int) -> Int:
    """The CRC-32C of buffer[start:end]; the bounds are checked by the caller."""
    crc = np.uint64(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        crc = _crc_word(crc, load_word(buffer, at))
        at += 8
    while at < end:
        crc = (crc >> np.uint64(8)) ^ np.uint64(_TABLES[0, (crc ^ np.uint64(buffer[at])) & np.uint64(0xFF)])
        at += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))
