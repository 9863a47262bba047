"""The tables of a fold: the same number for the same string or key, whatever their hashes, also after they have grown."""

import random

import numpy as np
import pytest

from ottla.groups.log.compiled_loading import tables

SLOTS = 64


def table(columns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(SLOTS, tables.FREE, np.int64), np.empty((SLOTS // 2, columns), np.int64)


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 5])
def test_a_string_keeps_its_number(seed: int):
    slots, rows = table(tables.STRING_COLUMNS)
    arena, used = np.empty(4096, np.uint8), np.zeros(3, np.int64)
    rng = random.Random(seed)
    strings = [b"", b"a", b"b", b"12345678", b"123456789", b"12345678\0", bytes(8), bytes(9), *(rng.randbytes(n) for n in range(2, 24))]

    def number(text: bytes) -> int:
        array = np.frombuffer(text + b"?" * 8, np.uint8)
        addresses = (slots.ctypes.data, SLOTS - 1, rows.ctypes.data, arena.ctypes.data, seed)
        return int(tables.string_of(addresses, used.ctypes.data, array.ctypes.data, len(text)))

    assert [number(text) for text in strings] == list(range(len(strings)))
    tables.fill_slots(slots, rows, len(strings))
    assert [number(text) for text in reversed(strings)] == list(reversed(range(len(strings))))
    spans = rows[: len(strings), [tables.STRING_START, tables.STRING_LENGTH]].tolist()
    assert [arena[start : start + length].tobytes() for start, length in spans] == strings
    assert used.tolist() == [len(strings), sum(map(len, strings)), 0]


def test_a_key_keeps_its_row():
    slots, rows = table(tables.COMMIT_COLUMNS)
    used = np.zeros(3, np.int64)
    keys = [(group, topic, partition) for group in (0, 1, 2**31 - 1) for topic in (0, 1) for partition in (0, 1, -1, 2**31 - 1, -(2**31))]

    def row(key: tuple[int, int, int]) -> int:
        address = tables.commit_of((slots.ctypes.data, SLOTS - 1, rows.ctypes.data, 9), used.ctypes.data, *key)
        return (int(address) - rows.ctypes.data) // (8 * tables.COMMIT_COLUMNS)

    assert [row(key) for key in keys] == list(range(len(keys)))
    assert rows[: len(keys), tables.IS_THERE].tolist() == [0] * len(keys)
    tables.fill_slots(slots, rows, len(keys))
    assert [row(key) for key in reversed(keys)] == list(reversed(range(len(keys))))
    assert rows[: len(keys), [tables.GROUP, tables.TOPIC, tables.PARTITION]].tolist() == [list(key) for key in keys]
