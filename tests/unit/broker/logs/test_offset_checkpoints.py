"""The data directory's checkpoints: kept for what is not open, written when they change, damaged ones not believed."""

from typing import Any

import pytest

from ottla.broker.logs.offset_checkpoints import OffsetCheckpoints
from ottla.core.model import Record, TopicPartition
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles

NAME, OTHER = TopicPartition("t", 0), TopicPartition("other", 3)


class Counted(MemoryFiles):
    """Counts replacements."""

    replaced = 0

    def replace(self, path: str, data: Any, *, sync: bool = True) -> None:
        super().replace(path, data, sync=sync)
        self.replaced += "checkpoint" in path and "epoch" not in path


def log_with(files: MemoryFiles, records: int, *, before: int = 0) -> PartitionLog:
    log = PartitionLog(files, "t-0", LogSettings())
    log.open(0)
    log.append_records([Record(0, 5, None, b"x")] * records, now_ms=5)
    log.flush()
    if before:
        log.delete_records(before)
    return log


def test_what_is_written_is_read_again_as_kafka_lays_it_out() -> None:
    files = Counted()
    files.replace("recovery-point-offset-checkpoint", b"0\n1\nother 3 77\n")
    checkpoints = OffsetCheckpoints(files)
    checkpoints.load()
    checkpoints.note(NAME, log_with(files, 5, before=2))
    checkpoints.write()
    assert files.read_all("recovery-point-offset-checkpoint") == b"0\n2\nother 3 77\nt 0 5\n"
    assert files.read_all("log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert files.read_all("replication-offset-checkpoint") == b"0\n1\nt 0 5\n"
    again = OffsetCheckpoints(files)
    again.load()
    assert (again.recovery_point(NAME), again.recovery_point(OTHER), again.recovery_point(TopicPartition("x", 0))) == (5, 77, None)
    assert (again.log_start(NAME), again.log_start(OTHER)) == (2, 0)


def test_what_has_not_changed_is_not_written_again() -> None:
    files = Counted()
    checkpoints = OffsetCheckpoints(files)
    log = log_with(files, 5)
    for _ in range(3):
        checkpoints.note(NAME, log)
        checkpoints.write()
    assert files.replaced == 3
    log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    checkpoints.note(NAME, log)
    checkpoints.write()
    assert files.read_all("recovery-point-offset-checkpoint") == b"0\n1\nt 0 5\n"  # not synced: not durable
    assert files.read_all("replication-offset-checkpoint") == b"0\n1\nt 0 6\n"
    assert files.replaced == 4


def test_what_is_deleted_is_forgotten() -> None:
    files = MemoryFiles()
    checkpoints = OffsetCheckpoints(files)
    checkpoints.note(NAME, log_with(files, 5))
    assert checkpoints.forget([NAME, OTHER])
    assert not checkpoints.forget([NAME, OTHER])
    assert checkpoints.recovery_point(NAME) is None


@pytest.mark.parametrize("data", [b"0\n2\nt 0 5\n", b"0\n1\nt 0 x\n", b"1\n1\nt 0 5\n", b"\xff"])
def test_a_damaged_file_is_not_believed(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    files.replace("recovery-point-offset-checkpoint", data)
    checkpoints = OffsetCheckpoints(files)
    checkpoints.load()
    assert checkpoints.recovery_point(NAME) is None
    assert "recovery-point-offset-checkpoint is damaged" in caplog.text
