"""A log read whole: in pieces, while its segments are cleaned under the reader, and what damage looks like."""

from typing import NamedTuple

import pytest

from ottla.log import log_reading
from ottla.log.append import Appended
from ottla.log.file_system import Buffer, Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.log_reading import ProducerEnd
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.log.segments import CLEANED_SUFFIX, make_ready
from ottla.log.settings import LogSettings
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, encode_batch, split_batches
from tests.support.kit.cleaning import append_from_client
from tests.support.kit.faulty_files import overwrite


class Whole(NamedTuple):
    """The batches of a buffer, as a reader's backend scans them."""

    size_bytes: int
    next_batch_bytes: int


def scan(buffer: Buffer) -> Whole:
    size = sum(header.size_bytes for _, header in split_batches(buffer))
    left = bytes(buffer[size:])
    return Whole(size, int.from_bytes(left[8:12]) + 12 if len(left) >= 61 else 0)


@pytest.fixture(params=["memory", "disk"])
def files(request: pytest.FixtureRequest, tmp_path) -> Files:
    return MemoryFiles() if request.param == "memory" else OsFiles(tmp_path)


@pytest.fixture
def log(files: Files) -> PartitionLog:
    """Three batches in the first segment, one in the second."""
    log = PartitionLog(files, "t-0", LogSettings(segment_bytes=500))
    log.open(0)
    for value in (b"a" * 80, b"b" * 80, b"c" * 80, b"d" * 80):
        log.append_records([Record(0, 5, b"k", value)], now_ms=0)
    return log


def values(reading: log_reading.LogReading, from_offset: int = 0) -> str:
    return "".join(
        (record.value or b"")[:1].decode()
        for _, buffer, piece in reading.pieces(scan, from_offset)
        for at, _ in split_batches(buffer[: piece.size_bytes])
        for record in decode_batch(buffer, at)
    )


@pytest.mark.parametrize("read_bytes", [1, 70, 300, 1 << 20])
def test_all_of_it_in_pieces_of_whole_batches(log: PartitionLog, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    monkeypatch.setattr(log_reading, "READ_BYTES", read_bytes)
    with log.reading() as reading:
        assert values(reading) == "abcd"
        assert (reading.log_start_offset, reading.last_stable_offset, reading.log_end_offset, reading.aborted) == (0, 4, 4, ())


def test_segments_that_end_before_an_offset_are_left_out(log: PartitionLog) -> None:
    with log.reading() as reading:
        second = reading.segments[1].base_offset
        assert values(reading, second - 1) == "abcd"
        assert values(reading, second) == "abcd"[second:]


def test_a_log_without_records_has_nothing_to_read(files: Files) -> None:
    log = PartitionLog(files, "empty-0", LogSettings())
    with log.reading() as reading:
        assert values(reading) == ""


def test_what_is_swapped_in_meanwhile_does_not_disturb(log: PartitionLog, files: Files) -> None:
    with log.reading() as reading:
        pieces = reading.pieces(scan)
        made = Segment(files, "t-0", 0, index_interval_bytes=4096, made_ms=0, file_suffix=CLEANED_SUFFIX)
        made.create()
        batch = encode_batch([Record(2, 5, b"k", b"c")], base_offset=2)
        made.append(batch)
        made.note(2, 5, len(batch))
        made.write_indexes(final=True)
        made.close()
        make_ready(files, made.path)
        deleted = log.swap_segments(0, [0])
        assert deleted
        for name in deleted:
            files.remove(name)
        assert values(reading) == "abcd"
        assert next(pieces)[2].size_bytes > 300
    with log.reading() as reading:
        assert values(reading) == "cd"


def test_a_file_that_is_shorter_than_the_log_knows_is_damage(log: PartitionLog, files: Files) -> None:
    with log.reading() as reading:
        file = files.open(reading.segments[0].name)
        file.truncate(100)
        file.close()
        with pytest.raises(StorageError, match=r"t-0/0{20}\.log cannot be read: it is damaged: it ends at byte 100"):
            values(reading)


def test_a_length_that_leads_out_of_the_file_is_damage(log: PartitionLog, files: Files) -> None:
    overwrite(files, f"t-0/{'0' * 20}.log", 8, b"\x00\x00\xff\xff")
    with log.reading() as reading, pytest.raises(StorageError, match="no whole batch begins at byte 0"):
        values(reading)


def test_what_the_scan_refuses_is_damage(log: PartitionLog) -> None:
    def refuse(_: Buffer) -> Whole:
        raise PeerError("a batch of a format that is not 2")

    with log.reading() as reading, pytest.raises(StorageError, match="it is damaged: a batch of a format that is not 2"):
        list(reading.pieces(refuse))


def test_files_that_were_opened_are_given_back_when_one_cannot_be(log: PartitionLog, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    opened_again = Segment.opened_again

    class Noted:
        def close(self) -> None:
            closed.append("first")

    def fail_at_the_second(segment: Segment) -> log_reading.OpenSegment:
        if segment.base_offset:
            raise StorageError("too many files are open")
        return opened_again(segment)._replace(file=Noted())  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "opened_again", fail_at_the_second)
    with pytest.raises(StorageError, match="too many"):
        log.reading()
    assert closed == ["first"]


NOW_MS = 1_000_000


def test_only_what_is_durable_and_full_is_shown() -> None:
    log = PartitionLog(MemoryFiles(), "t-0", LogSettings(segment_bytes=100, cleanup_policy="compact"))
    log.open(NOW_MS)
    empty = log.snapshot()
    assert (empty.segments, empty.active_base_offset, empty.log_end_offset, empty.producers) == ((), 0, 0, {})
    for number in range(4):
        batch = encode_batch([Record(0, NOW_MS + number, b"k", b"v")], producer_id=5, producer_epoch=1, base_sequence=number)
        assert isinstance(append_from_client(log, batch, now_ms=NOW_MS), Appended)
    assert log.snapshot().segments == ()
    log.sync_rolled()
    view = log.snapshot()
    assert [(segment.base_offset, segment.next_base_offset, segment.largest_timestamp_ms) for segment in view.segments] == [
        (0, 1, NOW_MS),
        (1, 2, NOW_MS + 1),
        (2, 3, NOW_MS + 2),
    ]
    assert {(segment.path, segment.offset_index_bytes, segment.time_index_bytes) for segment in view.segments} == {
        (f"t-0/{base:020d}", 0, 12) for base in range(3)
    }
    assert (view.active_base_offset, view.log_end_offset, view.last_stable_offset, view.log_start_offset) == (3, 4, 4, 0)
    assert view.size_bytes == log.size_bytes == sum(segment.size_bytes for segment in view.segments) * 4 // 3
    assert view.producers == {5: ProducerEnd(1, 3)}
