"""What every kernel is built of."""

import os
import random
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest
from numba import njit

from ottla.protocol.arrow import primitives
from ottla.protocol.arrow.primitives import INT_BYTES_MAX, LONG_BYTES_MAX, is_cached
from ottla.protocol.records.batch import put_varint

PRINT_IS_CACHED = """
from ottla.protocol.arrow import record_kernels
from ottla.protocol.arrow.primitives import is_cached
print(is_cached(record_kernels))
"""

_crc_by_tables = njit(primitives._crc_by_tables)


@primitives.helper
def _doubled(number: int) -> int:
    return 2 * number


def _plus_doubled(one: int, other: int) -> int:
    return one + _doubled(other)


def test_a_kernel_calls_helpers():
    assert primitives.jit(_plus_doubled)(1, 20) == 41


def test_a_kernel_releases_the_lock_and_is_kept():
    kernel: Any = primitives.jit(_plus_doubled)
    assert kernel.targetoptions["nogil"]
    assert type(kernel._cache).__name__ == "FunctionCache"


def test_without_a_folder_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch):
    plain = primitives.njit

    def njit(cache: bool = False, **options: Any) -> Callable[..., Any]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        compiled: Callable[..., Any] = plain(**options)
        return compiled

    monkeypatch.setattr(primitives, "njit", njit)
    assert primitives.jit(_plus_doubled)(1, 20) == 41


def test_without_kernels_nothing_is_kept() -> None:
    assert not is_cached(types.ModuleType("empty"))


def test_an_empty_cache_keeps_nothing(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_IS_CACHED],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == "False"


def test_what_was_compiled_is_kept() -> None:
    from ottla.groups.log.arrow import loading

    loading.load_kernels()
    assert is_cached(loading)


@njit
def _read_memory(buffer, at):
    start = primitives.address_of(buffer)
    primitives.fetch(start + at)
    return primitives.byte_at(start + at), primitives.word_at(start + at), primitives.swapped(primitives.word_at(start + at))


@njit
def _write(buffer, at, word):
    start = primitives.address_of(buffer)
    primitives.put_word(start + at, np.uint64(word))
    primitives.put_byte(start + at + 8, word)
    primitives.copy(start + at + 9, start + at, 9)


def test_reads_bytes_and_words_aligned_or_not():
    data = bytes(range(200, 220))
    buffer = np.frombuffer(data, np.uint8)
    for at in range(12):
        word = data[at : at + 8]
        assert _read_memory(buffer, at) == (data[at], int.from_bytes(word, "little"), int.from_bytes(word, "big"))


def test_writes_and_copies_what_it_is_given_and_nothing_else():
    buffer = np.full(24, 7, np.uint8)
    _write(buffer, 3, 0x1122334455667788)
    written = bytes.fromhex("8877665544332211") + b"\x88"
    assert buffer.tobytes() == b"\7" * 3 + written + written + b"\7" * 3


def test_the_address_of_a_part_is_where_the_part_begins():
    buffer = np.arange(16, dtype=np.uint8)
    assert _read_memory(buffer[5:], 0)[0] == 5


def _crc(buffer: np.ndarray, start: int, end: int) -> int:
    return primitives.crc32c(buffer.ctypes.data + start, buffer.ctypes.data + end)


def test_crc_of_every_length_at_every_alignment():
    data = random.Random(2).randbytes(9000)
    buffer = np.frombuffer(data, np.uint8)
    # A short range by words and bytes, a longer one as three ranges of 128 bytes, and of 1024.
    for start in range(9):
        for end in [*range(start, 200), *range(380, 410), *range(3050, 3090), 4000, 6143, 6144, 9000]:
            assert _crc(buffer, start, end) == crc32c.crc32c(data[start:end])


def test_the_check_value_of_the_standard():
    assert _crc(np.frombuffer(b"123456789", np.uint8), 0, 9) == 0xE3069283


def test_the_tables_and_the_instruction_agree():
    rng = random.Random(3)
    for _ in range(200):
        crc, data = rng.getrandbits(32), rng.randbytes(8)
        # The library starts from a finished checksum, the step from the bare register.
        expected = crc32c.crc32c(data, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        assert _crc_by_tables(np.uint64(crc), np.uint64(int.from_bytes(data, "little"))) == expected


@njit
def _varint(at, end, bytes_max):
    return primitives.varint(at, end, bytes_max)


@njit
def _span(at, end):
    return primitives.span(at, end)


@njit
def _headers(at, end):
    return primitives.headers(at, end)


def _read(function, data: bytes, *more: int) -> list[int]:
    """What a function says of these bytes; addresses count from their start."""
    buffer = np.frombuffer(bytearray(data or b"\0"), np.uint8)  # a bytes object of one byte may lie at a low address, as a number does
    start = buffer.ctypes.data
    return [int(number) - start if number > 1 << 32 else int(number) for number in function(start, start + len(data), *more)]


@pytest.mark.parametrize("number", [0, -1, 63, 64, -64, -65, 8191, 8192, -8193, 2**31 - 1, -(2**31)])
def test_numbers_of_32_bits(number: int):
    data = bytearray()
    put_varint(data, number)
    assert _read(_varint, bytes(data) + b"\xff", INT_BYTES_MAX) == [number, len(data)]
    assert _read(_varint, bytes(data[:-1]), INT_BYTES_MAX)[1] == -1


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 2**40])
def test_numbers_of_64_bits(number: int):
    data = bytearray()
    put_varint(data, number)
    value, after = _varint(
        *(lambda buffer: (buffer.ctypes.data, buffer.ctypes.data + len(data)))(np.frombuffer(data, np.uint8)), LONG_BYTES_MAX
    )
    assert (value, after > 0) == (number, True)


@pytest.mark.parametrize(
    ("data", "bytes_max"),
    [
        (b"\xff\xff\xff\xff\x10", INT_BYTES_MAX),  # 33 bits
        (b"\xff\xff\xff\xff\xff\x01", INT_BYTES_MAX),
        (b"\xff" * 9 + b"\x02", LONG_BYTES_MAX),  # 65 bits
        (b"\xff" * 10 + b"\x01", LONG_BYTES_MAX),
        (b"", LONG_BYTES_MAX),
    ],
)
def test_numbers_that_are_too_long_or_cut_off(data: bytes, bytes_max: int):
    assert _read(_varint, data, bytes_max)[1] == -1


def test_spans():
    assert _read(_span, b"\x04ab") == [1, 2, 3]
    assert _read(_span, b"\x01") == [1, -1, 1]
    assert _read(_span, b"\x06ab")[2] == -1
    assert _read(_span, b"\x03ab")[2] == -1


def test_headers_fill_their_record():
    assert _read(_headers, b"\x00") == [1, 0, 0, 0]
    assert _read(_headers, b"\x04\x02k\x04vv\x02k\x01") == [1, 2, 2, 2]
    for bad in (b"", b"\x00\x00", b"\x02\x02k\x04v", b"\x02\x01\x01", b"\x02\x02k\x01\x00", b"\x01", b"\x7e\x00"):
        assert _read(_headers, bad)[1] == -1
