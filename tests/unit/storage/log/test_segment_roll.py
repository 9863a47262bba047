"""When a segment is full (Kafka's LogSegment.shouldRoll)."""

from ottla.core.model import Record
from ottla.core.records.batch import BatchHeader, encode_batch, read_header
from ottla.storage.log.segment import Segment
from ottla.storage.log.segment_roll import is_full
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles


def active(timestamp_ms: int = 1000) -> Segment:
    files = MemoryFiles()
    files.make_directory("t-0")
    segment = Segment(files, "t-0", 0, index_interval_bytes=1, made_ms=5000)
    segment.create()
    batch = encode_batch([Record(0, timestamp_ms, None, b"x" * 30)])
    segment.append(batch)
    segment.note(0, timestamp_ms, len(batch))
    return segment


def header(timestamp_ms: int) -> BatchHeader:
    return read_header(encode_batch([Record(0, timestamp_ms, None, b"")]))


def full(
    segment: Segment, *, timestamp_ms: int = 1000, end_offset: int = 2, size_bytes: int = 70, now_ms: int = 5000, **given: object
) -> bool:
    settings = LogSettings(**given)  # type: ignore[arg-type]
    return is_full(segment, header(timestamp_ms), end_offset=end_offset, size_bytes=size_bytes, settings=settings, now_ms=now_ms)


def test_an_empty_segment_is_never_full() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    segment = Segment(files, "t-0", 0, index_interval_bytes=1, made_ms=0)
    segment.create()
    assert not full(segment, size_bytes=10**9, now_ms=10**12)


def test_by_bytes_and_by_offsets() -> None:
    segment = active()
    assert not full(segment, segment_bytes=segment.size + 70)
    assert full(segment, segment_bytes=segment.size + 69)
    assert not full(segment, end_offset=2**31)
    assert full(segment, end_offset=2**31 + 1)


def test_by_age_in_the_batches_own_time() -> None:
    assert not full(active(), timestamp_ms=1100, segment_ms=100)
    assert full(active(), timestamp_ms=1101, segment_ms=100)
    assert not full(active(-1), now_ms=5100, segment_ms=100)
    assert full(active(-1), now_ms=5101, segment_ms=100), "without timestamps, since it was made"


def test_jitter_brings_the_roll_forward_by_less_than_it_says() -> None:
    rolls = [timestamp for timestamp in range(1001, 1102) if full(active(), timestamp_ms=timestamp, segment_ms=100, segment_jitter_ms=60)]
    assert 1041 <= rolls[0] < 1101
    assert rolls == list(range(rolls[0], 1102))


def test_a_compacted_log_rolls_in_time_to_be_cleaned() -> None:
    assert not full(active(), timestamp_ms=1101, segment_ms=1000, max_compaction_lag_ms=100)
    assert full(active(), timestamp_ms=1101, segment_ms=1000, max_compaction_lag_ms=100, cleanup_policy="compact")
    assert not full(active(), timestamp_ms=1100, segment_ms=1000, max_compaction_lag_ms=100, cleanup_policy="compact")
