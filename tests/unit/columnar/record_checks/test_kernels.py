"""The kernels by address: where they stop, and what they leave."""

import numpy as np
import pytest

from ottla.columnar.record_checks import kernels as kernels
from ottla.core.model import Record
from ottla.core.records.record import encode_records


def check(section: bytes, count: int, base_timestamp_ms: int = 0) -> tuple[int, list[int]]:
    source, state = np.frombuffer(section, np.uint8), np.zeros(kernels.STATE_WORDS, np.int64)
    faults = np.zeros((4, kernels.FAULT_WORDS), np.int64)
    batch = np.array([count, base_timestamp_ms, 0, 0, 0, 0, 0, 0], np.int64)
    status = kernels.check(source.ctypes.data, len(section), batch.ctypes.data, state.ctypes.data, faults.ctypes.data)
    return status, state.tolist()


SECTION = bytes(encode_records([Record(number, 5, None, None) for number in range(3)], base_offset=0, base_timestamp_ms=0))


@pytest.mark.parametrize(
    ("section", "count", "status", "number", "position"),
    [
        (SECTION, 3, kernels.SOUND, 3, 21),
        (SECTION, 2, kernels.DAMAGED, 2, 14),
        (SECTION[:-1], 3, kernels.DAMAGED, 2, 14),
        (SECTION[7:], 2, kernels.OUT_OF_ORDER, 0, 0),
    ],
)
def test_where_a_check_stops(section: bytes, count: int, status: int, number: int, position: int) -> None:
    found, state = check(section, count)
    assert (found, state[kernels.NUMBER], state[kernels.POSITION]) == (status, number, position)


def test_a_timestamp_beyond_64_bits_is_damage() -> None:
    assert check(SECTION, 3, base_timestamp_ms=(1 << 63) - 5)[0] == kernels.DAMAGED
    assert check(SECTION, 3, base_timestamp_ms=(1 << 63) - 6)[0] == kernels.SOUND


def test_a_search_stops_at_what_it_finds() -> None:
    source, state = np.frombuffer(SECTION[:14] + b"\xff", np.uint8), np.zeros(kernels.STATE_WORDS, np.int64)
    batch = np.array([3, 0, 0, 0, 100, 2, 5, 101], np.int64)
    assert kernels.find(source.ctypes.data, len(source), batch.ctypes.data, state.ctypes.data) == kernels.FOUND
    assert (state[kernels.TIMESTAMP_MS], state[kernels.OFFSET]) == (5, 101)
