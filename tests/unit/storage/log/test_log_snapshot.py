"""What the cleaner is shown: durable, stable, full segments, and nothing that changes under it."""

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.log.log_snapshot import ProducerEnd
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import Appended
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.cleaning import append_from_client

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
