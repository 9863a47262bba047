"""The index arrays: lookups, golden file bytes, and files that cannot be an index."""

import struct

import pytest

from ottla.log.file_system import MemoryFiles
from ottla.log.index import AbortedTransaction, OffsetIndex, TimeIndex, decode_transactions, encode_transactions
from ottla.log.segment import SegmentIndexes

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


ONE = AbortedTransaction(producer_id=7, first_offset=10, last_offset=15, last_stable_offset=16)
TWO = AbortedTransaction(producer_id=8, first_offset=3, last_offset=20, last_stable_offset=12)


def test_entries_have_34_bytes_as_in_kafka() -> None:
    data = encode_transactions([ONE])
    assert data.hex() == "0000" + "0000000000000007" + "000000000000000a" + "000000000000000f" + "0000000000000010"
    assert decode_transactions(encode_transactions([ONE, TWO])) == [ONE, TWO]
    assert decode_transactions(b"") == []


def test_damage_is_not_believed() -> None:
    data = encode_transactions([ONE, TWO])
    assert decode_transactions(data[:-1]) is None
    assert decode_transactions(encode_transactions([TWO, ONE])) is None, "markers come in order"
    assert decode_transactions(b"\0\1" + data[2:34]) is None, "an unknown version"
    assert decode_transactions(encode_transactions([ONE._replace(first_offset=16)])) is None, "an end before its beginning"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("t-0")
    return files


def indexes(files: MemoryFiles, suffix: str = "") -> SegmentIndexes:
    return SegmentIndexes(files, "t-0/0", suffix)


def test_only_new_entries_are_written(files: MemoryFiles) -> None:
    written = indexes(files, ".cleaned")
    offsets, times = written.clear()
    assert written.file_bytes() is None
    offsets.append(1, 100)
    times.append_if_later(5, 1)
    written.write(offsets, times)
    files.open("t-0/0.index.cleaned").append(b"half of what was written before a failure")
    offsets.append(2, 200)
    written.write(offsets, times)
    assert written.file_bytes() == (16, 12)
    found = indexes(files, ".cleaned").read(300)
    assert found is not None
    assert (list(found[0].positions), list(found[1].timestamps_ms)) == ([100, 200], [5])


def test_a_missing_or_damaged_file_is_none(files: MemoryFiles) -> None:
    made = indexes(files)
    made.write(*made.clear())
    assert indexes(files).read(0) is not None
    files.open("t-0/0.timeindex").append(b"x")
    assert indexes(files).read(0) is None
    files.remove("t-0/0.timeindex")
    assert (indexes(files).read(0), indexes(files).file_bytes()) == (None, None)


def test_files_are_replaced_whatever_they_hold(files: MemoryFiles) -> None:
    files.open("t-0/0.index").append(b"something else")
    read = indexes(files)
    offsets, times = read.clear()
    offsets.append(1, 100)
    read.use(offsets, times)
    read.replace_files_later()
    read.write(offsets, times)
    assert read.file_bytes() == (8, 0)
    read.replace(*indexes(files).clear(), sync=True)
    assert read.file_bytes() == (0, 0)
    read.drop()
    assert (read.offsets, read.times) == (None, None)


def test_empty_files_are_not_synced(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync", synced.append)
    written = indexes(files)
    offsets, times = written.clear()
    written.write(offsets, times)
    written.sync()
    assert synced == []
    offsets.append(1, 100)
    written.write(offsets, times)
    written.sync()
    assert synced == ["t-0/0.index"]
