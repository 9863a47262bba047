"""What every kernel is built of: compilation, memory by address, checksums, varints and records.

Kernels only read inside the bounds of their arguments, and return a value for any bytes, never an exception. An address of -1 means
damaged bytes. They accept what the plain codec (protocol/records/batch.py) accepts (KIP-98).

CRC-32C uses the processor's own instruction where it has one, and tables otherwise. The instruction's result takes three cycles, and a new
one can begin in each of them: so long ranges are read as three at once, whose checksums are put together (CRC is linear: the bytes that
follow move a checksum on as zeros would).
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# In machine code every number is a 64-bit one: Python's own types, and NumPy's, would not show that.
Int = Any
Array = Any
F = TypeVar("F", bound=Callable[..., Any])

WORD_BYTES = 8
_BYTE, _HALF, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)

_LONG_BYTES, _SHORT_BYTES = 1024, 128

INT_BYTES_MAX = 5
LONG_BYTES_MAX = 10


def jit(function: F) -> F:
    """Compile on first use and keep the machine code beside the source (or in NUMBA_CACHE_DIR)."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # No folder to keep it in can be written: an installation that is read-only still works, it compiles once a process.
        compiled = njit(nogil=True)(function)
    return cast(F, compiled)


def helper(function: F) -> F:
    """A function of numbers that becomes a part of every kernel that calls it; Python cannot call it, which makes it compile faster."""
    compile_later: Any = njit  # its stubs lack some of its options
    return cast(F, compile_later(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def is_cached(module: ModuleType) -> bool:
    """True when every kernel of the module, as its source is now, has machine code on the disk; what it imports has its own."""
    # Numba reports only afterwards what it found; this repeats its lookup.
    kernels = [value for value in vars(module).values() if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__]
    caches = [getattr(kernel, "_cache", None) for kernel in kernels]
    files: list[Any] = [cache._cache_file for cache in caches if isinstance(cache, FunctionCache)]
    return bool(files) and all(file._load_index() for file in files)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _address_of_code(typing_context: Any, buffer: Any) -> Any:
    """Where a C-contiguous array's data begins."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, arguments[0]).data, _WORD)

    return types.int64(buffer), generate


def _byte_at_code(typing_context: Any, address: Any) -> Any:
    """The byte there, 0 to 255."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, arguments[0], _BYTE)), _WORD)

    return types.int64(types.int64), generate


def _word_at_code(typing_context: Any, address: Any) -> Any:
    """The eight bytes there, aligned or not, as an unsigned little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], _WORD), align=1)

    return types.uint64(types.int64), generate


def _put_byte_code(typing_context: Any, address: Any, number: Any) -> Any:
    """Write the lowest eight bits of a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[1], _BYTE), _pointer(builder, arguments[0], _BYTE))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _put_word_code(typing_context: Any, address: Any, word: Any) -> Any:
    """Write eight bytes, little-endian, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], _pointer(builder, arguments[0], _WORD), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


def _put_half_code(typing_context: Any, address: Any, number: Any) -> Any:
    """Write the lowest four bytes of a number, little-endian, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[1], _HALF), _pointer(builder, arguments[0], _HALF), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _copy_code(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy bytes from address to address; the two ranges do not overlap."""
    copy_raw: Any = cgutils.raw_memcpy

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, come_from, count = arguments
        copy_raw(builder, _pointer(builder, to, _BYTE), _pointer(builder, come_from, _BYTE), count, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _fetch_code(typing_context: Any, address: Any) -> Any:
    """Have the cache line there brought into the cache, and do not wait for it. Any address will do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, number = _pointer(builder, arguments[0], _BYTE), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [target.type, number, number, number])
        fetch_ahead = builder.module.declare_intrinsic("llvm.prefetch", [target.type], kind)
        builder.call(fetch_ahead, [target, number(0), number(3), number(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _swapped_code(typing_context: Any, word: Any) -> Any:
    """A word with its bytes in reverse order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


address_of: Any = intrinsic(_address_of_code)
byte_at: Any = intrinsic(_byte_at_code)
word_at: Any = intrinsic(_word_at_code)
put_byte: Any = intrinsic(_put_byte_code)
put_word: Any = intrinsic(_put_word_code)
put_half: Any = intrinsic(_put_half_code)
copy: Any = intrinsic(_copy_code)
fetch: Any = intrinsic(_fetch_code)
swapped: Any = intrinsic(_swapped_code)


@helper
def load(at: Int, word: Int) -> Int:
    """A word, with its sign, of those that begin at an address."""
    return np.int64(word_at(at + word * WORD_BYTES))


@helper
def store(at: Int, word: Int, number: Int) -> None:
    """Set a word of those that begin at an address."""
    put_word(at + word * WORD_BYTES, np.uint64(number))


@helper
def big_endian(at: Int, size: Int) -> Int:
    """A signed big-endian number of at most 8 bytes, at an address behind which there are 8 bytes to read."""
    return np.int64(swapped(word_at(at))) >> (64 - 8 * size)


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


@jit
def _long_varint(at: Int, end: Int, bytes_max: Int) -> tuple[Int, Int]:
    """The bits of a varint of any length as they are stored: (bits, address after them or -1)."""
    last = min(end, at + bytes_max)
    bits, shift, after = np.uint64(0), np.uint64(0), np.int64(-1)
    while at < last:
        byte = byte_at(at)
        bits |= np.uint64(byte & 0x7F) << shift
        shift += np.uint64(7)
        at += 1
        if byte < 0x80:
            # The fifth byte of a 32-bit number has space for four bits, the tenth of a 64-bit one for a single bit.
            if (shift < np.uint64(70) or byte < 2) and (bytes_max != INT_BYTES_MAX or bits <= np.uint64(0xFFFFFFFF)):
                after = at
            break
    return np.int64(bits), after


@helper
def varint(at: Int, end: Int, bytes_max: Int) -> tuple[Int, Int]:
    """A zigzag varint of at most `bytes_max` bytes: (value, address after it), the address -1 when it does not end before `end`.

    One and two bytes, as nearly all have, are read in place.
    """
    bits, after = np.int64(0), np.int64(-1)
    if at < end:
        first = byte_at(at)
        if first < 0x80:
            bits, after = first, at + 1
        else:
            second = byte_at(at + 1) if end - at > 1 else np.int64(0x80)
            if second < 0x80:
                bits, after = first & 0x7F | second << 7, at + 2
            else:
                bits, after = _long_varint(at, end, bytes_max)
    return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), after


@helper
def span(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A length, -1 for null, and as many bytes: (start, length, address after the bytes or -1)."""
    length, start = varint(at, end, INT_BYTES_MAX)
    if start < 0 or length < -1 or length > end - start:
        return start, length, np.int64(-1)
    return start, length, start + max(length, 0)


@helper
def head(at: Int, end: Int, last_offset_delta: Int) -> tuple[Int, Int, Int, Int]:
    """The fields before a record's key: (timestamp delta, offset delta, address of the key's length or -1, the record's end)."""
    length, body = varint(at, end, INT_BYTES_MAX)
    if body < 0 or length < 1 or length > end - body:
        return np.int64(0), np.int64(0), np.int64(-1), end
    record_end = body + length
    timestamp_delta, delta_at = varint(body + 1, record_end, LONG_BYTES_MAX)
    if delta_at < 0:
        return timestamp_delta, np.int64(0), np.int64(-1), record_end
    offset_delta, rest_at = varint(delta_at, record_end, INT_BYTES_MAX)
    if offset_delta < 0 or offset_delta > last_offset_delta:
        rest_at = np.int64(-1)
    return timestamp_delta, offset_delta, rest_at, record_end


@helper
def headers(at: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """A record's headers, which must fill it to its end: (address of the first, how many or -1, bytes of keys, bytes of values)."""
    count, first = varint(at, end, INT_BYTES_MAX)
    if first < 0 or count < 0 or count > (end - first) // 2:
        return at, np.int64(-1), np.int64(0), np.int64(0)
    if count == 0:
        return first, np.int64(0) if first == end else np.int64(-1), np.int64(0), np.int64(0)
    key_bytes, value_bytes = _header_bytes(first, end, count)
    return first, count if key_bytes >= 0 else np.int64(-1), key_bytes, value_bytes


@helper
def record(at: Int, end: Int, last_offset_delta: Int) -> tuple[Int, Int, tuple[Int, Int], tuple[Int, Int], tuple[Int, Int, Int, Int], Int]:
    """A whole record: (timestamp delta, offset delta, key and value as (address, length or -1), headers as `headers` gives them, the
    record's end, -1 for bytes that are no record)."""
    delta_ms, offset_delta, key_length_at, record_end = head(at, end, last_offset_delta)
    key_at = value_at = headers_at = np.int64(0)
    key_length = value_length = np.int64(-1)
    found = (np.int64(0), np.int64(-1), np.int64(0), np.int64(0))
    if key_length_at >= 0:
        key_at, key_length, value_length_at = span(key_length_at, record_end)
        if value_length_at >= 0:
            value_at, value_length, headers_at = span(value_length_at, record_end)
            if headers_at >= 0:
                found = headers(headers_at, record_end)
    return delta_ms, offset_delta, (key_at, key_length), (value_at, value_length), found, record_end if found[1] >= 0 else np.int64(-1)


@jit
def _header_bytes(at: Int, end: Int, count: Int) -> tuple[Int, Int]:
    """Bytes of all keys and of all values of so many headers; the first is -1 when they are not sound or do not end at `end`."""
    key_bytes = value_bytes = np.int64(0)
    for _ in range(count):
        _, key_length, at = span(at, end)
        if at < 0 or key_length < 0:
            return np.int64(-1), value_bytes
        _, value_length, at = span(at, end)
        if at < 0:
            return np.int64(-1), value_bytes
        key_bytes += key_length
        value_bytes += max(value_length, 0)
    return key_bytes if at == end else np.int64(-1), value_bytes
