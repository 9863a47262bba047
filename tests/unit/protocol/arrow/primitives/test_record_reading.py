"""How compiled code reads records: numbers at their limits, bytes that end too early. Whole records are compared in tests/properties."""

import numpy as np
import pytest
from numba import njit

from ottla.protocol.arrow.primitives import record_reading
from ottla.protocol.arrow.primitives.record_reading import INT_BYTES_MAX, LONG_BYTES_MAX
from ottla.protocol.records.record import put_varint


@njit
def _varint(at, end, bytes_max):
    return record_reading.varint(at, end, bytes_max)


@njit
def _span(at, end):
    return record_reading.span(at, end)


@njit
def _headers(at, end):
    return record_reading.headers(at, end)


def _read(function, data: bytes, *more: int) -> list[int]:
    """What a function says of these bytes; addresses count from their start."""
    buffer = np.frombuffer(data or b"\0", np.uint8)
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
