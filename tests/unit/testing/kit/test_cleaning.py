"""`clean_now`: the log is cleaned behind its checkpoint, and nothing of what was replaced is left behind."""

from ottla.core.model import Record
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.cleaning import clean_now, records


def test_a_log_is_cleaned_up_to_its_active_segment() -> None:
    files = MemoryFiles()
    log = PartitionLog(files, "t-0", LogSettings(segment_bytes=1, cleanup_policy="compact"))
    log.open(0)
    for number in range(4):
        log.append_records([Record(0, 1000, b"k", b"%d" % number)], now_ms=1000)
    log.flush()
    assert clean_now(files, log, now_ms=2000, checkpoint=1).end_offset == 3
    assert [record.offset for record in records(log)] == [2, 3]
    assert not [name for name in files.list("t-0") if name.endswith((".deleted", ".cleaned", ".swap"))]
