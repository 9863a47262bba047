"""CRC-32C of a range of bytes, in compiled code: the checksum of record batches.

It uses the processor's own instruction where it has one, and tables otherwise. The instruction's result takes three cycles, and a new one
can begin in each of them: so long ranges are read as three at once, whose checksums are put together (CRC is linear: the bytes that follow
move a checksum on as zeros would).
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from ottla.protocol.arrow.primitives.compilation import Array, Int, helper, jit
from ottla.protocol.arrow.primitives.memory import byte_at, word_at

_LONG_BYTES, _SHORT_BYTES = 1024, 128


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


def _crc_instruction_code(typing_context: Any, crc: Any, word: Any) -> Any:
    """CRC-32C over eight more bytes, by SSE 4.2."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        instruction = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), ir.FunctionType(number, [number, number]))
        return builder.call(instruction, arguments)

    return types.uint64(types.uint64, types.uint64), generate


def _crc_by_tables(crc: Int, word: Int) -> Int:
    """CRC-32C over eight more bytes, by eight table lookups."""
    mixed = np.uint64(crc) ^ np.uint64(word)
    result = np.uint32(0)
    for byte in range(8):
        result ^= _TABLES[7 - byte, (mixed >> np.uint64(8 * byte)) & np.uint64(0xFF)]
    return np.uint64(result)


# LLVM's names of this processor's features; NUMBA_CPU_FEATURES may remove some.
_HAS_INSTRUCTION = "+sse4.2" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
_crc_word: Any = intrinsic(_crc_instruction_code) if _HAS_INSTRUCTION else helper(_crc_by_tables)


def _zeros_tables(size: int) -> Array:
    """Four tables, one for each byte of a checksum: its value after `size` more zero bytes, a power of two."""
    bytes_ = np.arange(256, dtype=np.uint32)
    states = np.stack([bytes_ << np.uint32(8 * place) for place in range(4)])
    tables = _TABLES[0][states & 0xFF] ^ states >> np.uint32(8)
    for _ in range(size.bit_length() - 1):
        tables = np.bitwise_xor.reduce([tables[place][tables >> np.uint32(8 * place) & 0xFF] for place in range(4)])
    return tables


_LONG_TABLES, _SHORT_TABLES = _zeros_tables(_LONG_BYTES), _zeros_tables(_SHORT_BYTES)


@helper
def _moved(crc: Int, tables: Array) -> Int:
    mask = np.uint64(0xFF)
    low = tables[0, crc & mask] ^ tables[1, crc >> np.uint64(8) & mask]
    return np.uint64(low ^ tables[2, crc >> np.uint64(16) & mask] ^ tables[3, crc >> np.uint64(24) & mask])


@helper
def _three(crc: Int, at: Int, size: Int, tables: Array) -> Int:
    """The checksum after three ranges of so many bytes; `tables` are those of that size."""
    second, third = np.uint64(0), np.uint64(0)
    for offset in range(0, size, 8):
        crc = _crc_word(crc, word_at(at + offset))
        second = _crc_word(second, word_at(at + size + offset))
        third = _crc_word(third, word_at(at + 2 * size + offset))
    return _moved(_moved(crc, tables) ^ second, tables) ^ third


@jit
def crc32c(start: Int, end: Int) -> Int:
    """The CRC-32C of the bytes between two addresses."""
    crc = np.uint64(0xFFFFFFFF)
    at = start
    while at + 3 * _LONG_BYTES <= end:
        crc = _three(crc, at, _LONG_BYTES, _LONG_TABLES)
        at += 3 * _LONG_BYTES
    while at + 3 * _SHORT_BYTES <= end:
        crc = _three(crc, at, _SHORT_BYTES, _SHORT_TABLES)
        at += 3 * _SHORT_BYTES
    while at + 8 <= end:
        crc = _crc_word(crc, word_at(at))
        at += 8
    while at < end:
        crc = (crc >> np.uint64(8)) ^ np.uint64(_TABLES[0, (crc ^ np.uint64(byte_at(at))) & np.uint64(0xFF)])
        at += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))
