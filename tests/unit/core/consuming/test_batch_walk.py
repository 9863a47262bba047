"""Where batches end: whole ones, cut ones, and bytes that are none."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.consuming.batch_walk import Walked, walk
from ottla.core.errors import PeerError


def batch(first: int, count: int, **changes: Any) -> bytes:
    fields = {"base": first, "length": 49, "epoch": 0, "magic": 2, "crc": 0, "attributes": 0, "delta": count - 1} | changes
    return struct.pack(">qiibIhiqqqhii", *fields.values(), 0, 0, -1, -1, -1, count)


TWO = memoryview(batch(0, 10) + batch(10, 5))


def test_whole_batches_up_to_the_end() -> None:
    assert walk(TWO, 100) == Walked(122, 2, 15)
    assert walk(TWO, 11) == Walked(122, 2, 15)
    assert walk(memoryview(b""), 100) == Walked(0, 0, -1)


def test_what_begins_at_the_end_or_behind_is_left_out_and_says_that_the_end_is_reached() -> None:
    assert walk(TWO, 10) == Walked(61, 1, 10)
    assert walk(TWO, 3) == Walked(61, 1, 10)
    assert walk(memoryview(batch(50, 5)), 20) == Walked(0, 0, 50)


@pytest.mark.parametrize("size", [62, 100, 121])
def test_a_cut_batch_is_left_out(size: int) -> None:
    assert walk(TWO[:size], 100) == Walked(61, 1, 10)
    assert walk(TWO[: size - 62], 100) == Walked(0, 0, -1)


@pytest.mark.parametrize(
    "changes", [{"magic": 1}, {"length": 48}, {"base": -1}, {"delta": -1}, {"base": 2**63 - 5, "delta": 10}, {"length": -1}]
)
def test_bytes_that_are_no_batch(changes: dict[str, int]) -> None:
    with pytest.raises(PeerError):
        walk(memoryview(batch(0, 10, **changes)), 100)


@given(st.binary(max_size=300), st.integers(0, 2**63 - 1))
def test_any_bytes_end_in_a_walk_or_a_peer_error(data: bytes, end: int) -> None:
    try:
        walked = walk(memoryview(data), end)
    except PeerError:
        return
    assert 0 <= walked.size_bytes <= len(data)
