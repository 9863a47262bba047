"""The index arrays: lookups, golden file bytes, and files that cannot be an index."""

import struct

import pytest

from ottla.storage.log.index import OffsetIndex, TimeIndex

OFFSETS = [(9, 5000), (20, 10_000), (400, 2_147_483_000)]
TIMES = [(1_700_000_000_000, 3), (1_700_000_000_001, 20), (1 << 42, 400)]


def offset_index() -> OffsetIndex:
    index = OffsetIndex()
    for entry in OFFSETS:
        index.append(*entry)
    return index


def time_index() -> TimeIndex:
    index = TimeIndex()
    for entry in TIMES:
        index.append_if_later(*entry)
    return index


@pytest.mark.parametrize(("offset", "position"), [(0, 0), (8, 0), (9, 5000), (19, 5000), (20, 10_000), (1000, 2_147_483_000)])
def test_a_batch_that_ends_at_or_before_the_offset(offset: int, position: int) -> None:
    assert offset_index().position_for(offset) == position


@pytest.mark.parametrize(("limit", "start"), [(0, 0), (4999, 0), (5000, 5000), (9999, 5000), (10_000, 10_000)])
def test_the_nearest_batch_start(limit: int, start: int) -> None:
    assert offset_index().batch_start_at_or_before(limit) == start


def test_offset_entries_are_eight_bytes() -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in OFFSETS)
    assert offset_index().encode() == data
    assert offset_index().encode(2) == data[16:]
    decoded = OffsetIndex.decode(data, log_bytes=2_147_483_647)
    assert decoded is not None
    assert list(zip(decoded.relative_offsets, decoded.positions)) == OFFSETS


def test_time_entries_are_twelve_bytes() -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in TIMES)
    assert time_index().encode() == data
    assert time_index().encode(1) == data[12:]
    decoded = TimeIndex.decode(data)
    assert decoded is not None
    assert list(zip(decoded.timestamps_ms, decoded.relative_offsets)) == TIMES


def test_time_moves_forward_only() -> None:
    index = time_index()
    index.append_if_later(1 << 42, 500)
    index.append_if_later(5, 600)
    assert len(index) == 3
    nothing = TimeIndex()
    nothing.append_if_later(-1, 0)
    assert len(nothing) == 0


@pytest.mark.parametrize(("timestamp_ms", "offset"), [(0, 0), (1_700_000_000_000, 3), (1_700_000_000_002, 20), (1 << 50, 400)])
def test_no_batch_before_this_one_reaches_the_time(timestamp_ms: int, offset: int) -> None:
    assert time_index().relative_offset_for(timestamp_ms) == offset


def test_empty_files_are_empty_indexes() -> None:
    assert OffsetIndex.decode(b"", log_bytes=0) is not None
    assert TimeIndex.decode(b"") is not None


@pytest.mark.parametrize(
    "data",
    [
        bytes(7),
        bytes(8),  # the first batch is never indexed
        struct.pack(">iiii", 9, 5000, 0, 0),  # preallocated and not trimmed
        struct.pack(">iiii", 9, 5000, 9, 6000),
        struct.pack(">iiii", 9, 5000, 10, 5000),
        struct.pack(">ii", 9, 20_000),  # behind the end of the log
    ],
)
def test_what_cannot_be_an_offset_index(data: bytes) -> None:
    assert OffsetIndex.decode(data, log_bytes=20_000) is None


@pytest.mark.parametrize("data", [bytes(11), bytes(24), struct.pack(">qiqi", 5, 1, 4, 2), struct.pack(">qi", -1, 1)])
def test_what_cannot_be_a_time_index(data: bytes) -> None:
    assert TimeIndex.decode(data) is None
