"""Boundaries of batches: whole, cut and malformed ones."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.client.batch_scan import WholeBatches, scan_batches
from ottla.core.errors import PeerError


def batch(first: int, count: int, **changes: Any) -> bytes:
    fields = {"base": first, "length": 49, "epoch": 0, "magic": 2, "crc": 0, "attributes": 0, "delta": count - 1} | changes
    return struct.pack(">qiibIhiqqqhii", *fields.values(), 0, 0, -1, -1, -1, count)


TWO = memoryview(batch(0, 10) + batch(10, 5))


def test_whole_batches() -> None:
    assert scan_batches(TWO) == WholeBatches(122, 15)
    assert scan_batches(memoryview(b"")) == WholeBatches(0, -1)


@pytest.mark.conformance("FetcherTest.testFetchNonContinuousRecords")
def test_offsets_may_have_gaps() -> None:
    assert scan_batches(memoryview(batch(5, 3) + batch(50, 1, delta=49))) == WholeBatches(122, 100)


@pytest.mark.parametrize("size", [62, 100, 121])
def test_a_cut_batch_is_left_out(size: int) -> None:
    assert scan_batches(TWO[:size]) == WholeBatches(61, 10)
    assert scan_batches(TWO[: size - 62]) == WholeBatches(0, -1)


@pytest.mark.conformance("FetcherTest.testInvalidDefaultRecordBatch")
@pytest.mark.parametrize(
    "changes", [{"magic": 1}, {"length": 48}, {"base": -1}, {"delta": -1}, {"base": 2**63 - 5, "delta": 10}, {"length": -1}]
)
def test_bytes_that_are_no_batch(changes: dict[str, int]) -> None:
    with pytest.raises(PeerError):
        scan_batches(memoryview(batch(0, 10, **changes)))


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_scan_or_a_peer_error(data: bytes) -> None:
    try:
        walked = scan_batches(memoryview(data))
    except PeerError:
        return
    assert 0 <= walked.size_bytes <= len(data)
