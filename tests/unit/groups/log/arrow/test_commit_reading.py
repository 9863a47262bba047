"""What is UTF-8, and where a topic's id is, held against Python's. Whole logs: tests/properties."""

from itertools import product

import numpy as np
import pytest

from ottla.groups.log.arrow.commit_reading import _is_utf8, _topic_id


def is_utf8(data: bytes) -> bool:
    array = np.frombuffer(data + b"\x80" * 8, np.uint8)
    return bool(_is_utf8(array.ctypes.data, array.ctypes.data + len(data)))


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


EDGES = bytes([0, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF])


@pytest.mark.parametrize("prefix", [b"", b"12345678", b"1234567"])
def test_utf8_is_what_python_takes_for_it(prefix: bytes):
    for size in range(4):
        for tail in product(EDGES, repeat=size):
            data = prefix + bytes(tail)
            assert is_utf8(data) == is_text(data), data
    for lead in (0xF0, 0xF4, 0xF1, 0xF5):
        for tail in product(EDGES, repeat=3):
            data = prefix + bytes([lead, *tail])
            assert is_utf8(data) == is_text(data), data


ID = bytes(range(16))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (b"\0", (0, True)),
        (b"\1\0\x10" + ID, (3, True)),
        (b"\2\0\x10" + ID + b"\0\x10" + ID, (21, True)),
        (b"\2\5\1x\0\x10" + ID, (6, True)),
        (b"\1\5\1x", (0, True)),
        (b"\2\0\3abc\0\x10" + ID, (8, True)),
        (b"\2\0\x10" + ID + b"\0\3abc", (0, False)),
        (b"\1\0\3abc", (0, False)),
        (b"\1\0\x10" + ID[:15], (0, False)),
        (b"\2\5\1x", (0, False)),
        (b"", (0, False)),
        (b"\xff\xff\xff\xff\xff\1", (0, False)),
    ],
)
def test_topic_ids_among_tagged_fields(fields: bytes, found: tuple[int, bool]):
    array = np.frombuffer(fields + b"\0" * 8, np.uint8)
    start = array.ctypes.data
    address, is_sound = _topic_id(start, start + len(fields))
    assert (address - start if address and is_sound else 0, bool(is_sound)) == found
