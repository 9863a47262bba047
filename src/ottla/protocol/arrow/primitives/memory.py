"""Memory by address, for kernels: bytes and words read, written, copied and fetched ahead.

A helper that takes an array costs two atomic counts for every call, or every use where it is inlined; one that takes a number costs
nothing, and compiles in a quarter of the time. So kernels take the address of an array once and hand numbers on. Nothing is checked here:
the caller knows that the bytes are there, and holds the array.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ottla.protocol.arrow.primitives.compilation import Int, helper

WORD_BYTES = 8
_BYTE, _HALF, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)


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
