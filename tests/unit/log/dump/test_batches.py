"""Batches and records of a log file as items of a dump."""

import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from ottla.log.dump.batches import (
    WINDOW_BYTES,
    BatchItem,
    DumpOptions,
    FindingItem,
    Item,
    Note,
    OldBatchItem,
    RecordItem,
    Window,
    read_ends,
)
from ottla.log.dump.report import dump_file
from ottla.log.file_system import MemoryFiles
from ottla.log.files import OsFiles
from ottla.protocol.model import Record
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, encode_batch
from ottla.protocol.records.compression import Codec

LOG = "00000000000000000100.log"
Dumped = Callable[..., list[Item]]
Rewrite = Callable[[str, Callable[[bytearray], object]], None]
Faults = Callable[[list[Item]], list[str]]


def test_batches_and_index_entries_are_shown_and_records_are_not() -> None:
    options = DumpOptions()
    assert (options.with_records, options.with_entries, options.is_sanity_check, options.bytes_max) == (False, True, False, None)


def test_a_finding_is_a_fault_unless_it_says_otherwise() -> None:
    assert FindingItem("heading", "text").is_fault


class CountingFiles(MemoryFiles):
    """Remembers how much was read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def read_range(self, path: str, position: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read_range(path, position, length)


def test_ranges_are_read_in_windows() -> None:
    files = CountingFiles()
    data = bytes(n % 251 for n in range(3 * WINDOW_BYTES // 1000)) * 1000
    files.open("log").append(data)
    window = Window(files, "log")
    for position in range(0, len(data), 1000):
        assert window.read(position, 61) == data[position : position + 61]
    assert len(files.lengths) <= 5
    assert max(files.lengths) == WINDOW_BYTES
    assert window.read(10, 2 * WINDOW_BYTES) == data[10 : 10 + 2 * WINDOW_BYTES]


def test_reads_end_where_the_file_ends_or_the_limit_is() -> None:
    files = MemoryFiles()
    files.open("log").append(b"0123456789")
    window = Window(files, "log", size_max=6)
    assert window.size == 6
    assert bytes(window.read(4, 10)) == b"45"
    assert bytes(window.read(6, 1)) == bytes(window.read(60, 1)) == bytes(window.read(-1, 3)) == b""


def test_what_is_appended_later_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"12345")
    window = Window(OsFiles(tmp_path), "log")
    (tmp_path / "log").write_bytes(b"12345678")
    assert bytes(window.read(0, 100)) == b"12345"


def test_a_file_that_was_cut_meanwhile_gives_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"12345")
    window = Window(OsFiles(tmp_path), "log")
    (tmp_path / "log").write_bytes(b"12")
    assert bytes(window.read(0, 5)) == b"12"


def batches(items: list[Item]) -> list[BatchItem]:
    return [item for item in items if isinstance(item, BatchItem)]


def offsets(items: list[Item]) -> list[int]:
    return [item.record.offset for item in items if isinstance(item, RecordItem)]


def old_message(offset: int, magic: int, *, timestamp_ms: int = 5, attributes: int = 0) -> bytes:
    body = bytes([magic, attributes]) + (pack(">q", timestamp_ms) if magic else b"") + pack(">ii", -1, 1) + b"v"
    return pack(">qi", offset, len(body) + 4) + zlib.crc32(body).to_bytes(4) + body


def test_every_batch_with_its_place_and_its_checksum(dumped: Dumped) -> None:
    items = dumped(LOG)
    assert items[0] == Note("Log starting offset: 100")
    found = batches(items)
    assert [(each.header.base_offset, each.header.codec, each.is_valid) for each in found] == [(100 + 3 * c, c, True) for c in Codec]
    assert [each.position for each in found[1:]] == [each.position + each.header.size_bytes for each in found[:-1]]
    assert len(items) == 6


def test_records_of_every_codec(dumped: Dumped) -> None:
    items = dumped(LOG, with_records=True)
    assert offsets(items) == [*range(100, 115)]
    assert not [item for item in items if isinstance(item, FindingItem)]


def test_control_records_are_opened(files: MemoryFiles, dumped: Dumped) -> None:
    record = Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7", ())
    files.open("t-0/0.log").append(encode_batch([record], producer_id=1, is_control=True, is_transactional=True))
    (item,) = [item for item in dumped("0.log", with_records=True) if isinstance(item, RecordItem)]
    assert item.control is not None
    assert (item.control.name, item.control.data["coordinatorEpoch"]) == ("COMMIT", 7)


def test_a_batch_with_a_wrong_checksum_is_reported_and_passed_over(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    second = batches(dumped(LOG))[1].position
    rewrite(LOG, lambda data: data.__setitem__(second + 80, data[second + 80] ^ 1))
    items = dumped(LOG, with_records=True)
    assert [each.is_valid for each in batches(items)] == [True, False, True, True, True]
    assert faults(items)[0] == f"the batch of offset 103 at position {second} does not match its checksum"
    assert "gzip" in faults(items)[1]
    assert offsets(items) == [100, 101, 102, *range(106, 115)]


def test_what_is_no_whole_batch_at_the_end_is_counted(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    whole = batches(dumped(LOG))
    rewrite(LOG, lambda data: data.extend(data[:70]))
    items = dumped(LOG)
    assert len(batches(items)) == len(whole)
    assert Note(f"Found 70 invalid bytes at the end of {LOG}") in items
    assert len(faults(items)) == 1


@pytest.mark.parametrize("length", [13, -1, -(2**31), 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_walk(dumped: Dumped, rewrite: Rewrite, faults: Faults, length: int) -> None:
    second = batches(dumped(LOG))[1].position
    rewrite(LOG, lambda data: data.__setitem__(slice(second + 8, second + 12), pack(">i", length)))
    items = dumped(LOG, with_records=True)
    assert len(batches(items)) == 1
    assert f"from position {second} on" in faults(items)[-1]


def test_a_length_that_is_too_short_for_a_header_is_an_invalid_batch(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(LOG, lambda data: data.__setitem__(slice(8, 12), pack(">i", 20)))
    items = dumped(LOG, with_records=True)
    assert not batches(items)[0].is_valid
    assert faults(items)


def test_offsets_that_go_back_are_a_fault_and_gaps_are_not(files: MemoryFiles, dumped: Dumped) -> None:
    log = files.open("t-0/gaps.log")
    for base in (5, 9, 9):
        log.append(encode_batch([Record(base, 5, None, b"", ())], base_offset=base))
    found = [item for item in dumped("gaps.log", with_records=True) if isinstance(item, FindingItem)]
    assert [(each.text.split(" at")[0].strip(), each.is_fault) for each in found] == [
        ("5 is followed by 9", False),
        ("9 is followed by 9", True),
        ("9 is followed by 9", False),
    ]


def test_a_limit_of_bytes_ends_the_walk_in_silence(dumped: Dumped) -> None:
    second = batches(dumped(LOG))[1].position
    items = dumped(LOG, bytes_max=second + 5)
    assert len(batches(items)) == 1
    assert len(items) == 2


@pytest.mark.parametrize(("magic", "kind", "timestamp_ms"), [(0, "NoTimestampType", -1), (1, "CreateTime", 5)])
def test_old_formats_are_listed(files: MemoryFiles, dumped: Dumped, faults: Faults, magic: int, kind: str, timestamp_ms: int) -> None:
    log = files.open("t-0/old.log")
    log.append(old_message(0, magic))
    log.append(old_message(1, magic)[:-1] + b"w")
    log.append(encode_batch([Record(2, 5, None, b"", ())], base_offset=2))
    items = dumped("old.log", with_records=True)
    first, second = [item for item in items if isinstance(item, OldBatchItem)]
    assert (first.offset, first.timestamp_type, first.timestamp_ms, first.magic, first.is_valid) == (0, kind, timestamp_ms, magic, True)
    assert not second.is_valid
    assert len(faults(items)) == 1
    assert offsets(items) == [2]


def test_append_time_of_the_old_format(files: MemoryFiles, dumped: Dumped) -> None:
    files.open("t-0/old.log").append(old_message(0, 1, attributes=8))
    (item,) = [item for item in dumped("old.log") if isinstance(item, OldBatchItem)]
    assert item.timestamp_type == "LogAppendTime"


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_formats_that_do_not_exist_are_faults(dumped: Dumped, rewrite: Rewrite, faults: Faults, magic: int) -> None:
    rewrite(LOG, lambda data: data.__setitem__(16, magic & 0xFF))
    items = dumped(LOG, with_records=True)
    assert any(str(magic) in text for text in faults(items))
    assert offsets(items) == [*range(103, 115)]


def test_a_batch_larger_than_the_window_is_checked_in_parts(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    batch = encode_batch([Record(0, 5, None, bytes(3 * WINDOW_BYTES), ())])
    files.open("t-0/large.log").append(batch)
    items = dumped("large.log", with_records=True)
    assert batches(items)[0].is_valid
    assert offsets(items) == [0]
    assert not faults(items)


def test_a_bomb_is_reported_and_not_inflated(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    bomb = encode_batch([Record(0, 5, None, bytes(DECOMPRESSED_BYTES_MAX + 1), ())], codec=Codec.ZSTD)
    files.open("t-0/bomb.log").append(bomb)
    items = dumped("bomb.log", with_records=True)
    assert batches(items)[0].is_valid
    assert "holds more than" in faults(items)[0]


def test_the_ends_of_batches_of_each_format() -> None:
    files = MemoryFiles()
    log = files.open("log")
    log.append(old_message(3, 0))
    log.append(old_message(4, 1, timestamp_ms=77))
    log.append(encode_batch([Record(5, 88, None, b"", ()), Record(6, 99, None, b"", ())], base_offset=5))
    window, position, found = Window(files, "log"), 0, []
    while (ends := read_ends(window, position)) is not None:
        found.append((ends.last_offset, ends.max_timestamp_ms))
        position = ends.next_position
    assert found == [(3, -1), (4, 77), (6, 99)]
    assert position == window.size
    assert read_ends(window, -5) is None


def test_a_batch_of_many_tiny_records_is_never_held_as_records(files: MemoryFiles) -> None:
    tiny = [Record(number, 0, None, None, ()) for number in range(50_000)]
    files.open("t-0/tiny.log").append(encode_batch(tiny, codec=Codec.GZIP))
    del tiny
    tracemalloc.start()
    try:
        assert sum(isinstance(item, RecordItem) for item in dump_file(files, "t-0/tiny.log", "", DumpOptions(with_records=True))) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
