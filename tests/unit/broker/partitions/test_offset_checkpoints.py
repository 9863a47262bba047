"""The data directory's checkpoints: kept for what is not open, written when they change, damaged ones not believed."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.partitions.offset_checkpoints import CheckpointDeletions, OffsetCheckpoints
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

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


START = "log-start-offset-checkpoint"


def make(write: Callable[[], None]) -> CheckpointDeletions:
    return CheckpointDeletions([write])


def test_it_is_written_in_another_thread_once_for_all() -> None:
    threads: list[threading.Thread] = []
    deletions = make(lambda: threads.append(threading.current_thread()))
    deletions.note("t")
    deletions.note("u")
    asyncio.run(deletions.write())
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
    deletions.write_for("t")
    asyncio.run(deletions.write())
    assert len(threads) == 1


def test_a_topic_of_the_name_waits_for_it_and_no_other() -> None:
    written: list[bool] = []
    deletions = make(lambda: written.append(True))
    deletions.note("t")
    deletions.write_for("u")
    assert written == []
    deletions.write_for("t")
    deletions.write_for("t")
    assert written == [True]


def test_what_fails_keeps_a_topic_of_the_name_from_being_made(caplog: pytest.LogCaptureFixture) -> None:
    errors = [StorageError("the disk is full"), StorageError("the disk is full")]

    def fail() -> None:
        if errors:
            raise errors.pop()

    deletions = make(fail)
    deletions.note("t")
    asyncio.run(deletions.write())
    assert "the disk is full" in caplog.text
    with pytest.raises(StorageError, match="the disk is full"):
        deletions.write_for("t")
    deletions.write_for("t")
    assert errors == []


def test_a_topic_that_goes_while_others_are_written_is_not_taken_to_be() -> None:
    written: list[bool] = []
    go_on = threading.Event()

    def write() -> None:
        written.append(True)
        assert go_on.wait(60)

    async def run() -> None:
        deletions = make(write)
        deletions.note("t")
        writing = asyncio.ensure_future(deletions.write())
        while not written:
            await asyncio.sleep(0.001)
        deletions.note("u")
        deletions.note("t")
        go_on.set()
        await writing
        for name in ("t", "u"):
            deletions.write_for(name)

    asyncio.run(run())
    assert len(written) == 2


def test_a_topic_that_is_made_again_never_has_the_log_start_of_the_last_one(make_api) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    partition = first.cluster.partitions.by_name("t", 0)
    partition.log.append_records([Record(0, 5, None, b"x")] * 5, now_ms=5)
    partition.log.flush()
    partition.log.delete_records(3)

    async def delete_and_make_again() -> None:
        await first.cluster.log_manager.checkpoint()
        assert b"t 0 3" in first.files.read_all(START)
        assert first.cluster.topic_deletion.delete("t") is None
        assert b"t 0 3" in first.files.read_all(START)
        first.cluster.topics.create(NewTopic(name="t"))
        assert b"t 0 3" not in first.files.read_all(START)

    first.runner.run(delete_and_make_again())


def test_the_answer_to_a_deletion_comes_when_the_disk_knows(api) -> None:
    for name in ("t", "u"):
        api.cluster.topics.ensure(name)
        partition = api.cluster.partitions.by_name(name, 0)
        partition.log.append_records([Record(0, 5, None, b"x")] * 5, now_ms=5)
        partition.log.flush()
        partition.log.delete_records(3)
    api.runner.run(api.cluster.log_manager.checkpoint())
    replaced: list[threading.Thread] = []
    replace = api.files.replace

    def count(path: str, data: bytes, *, sync: bool = True) -> None:
        if path == START:
            replaced.append(threading.current_thread())
        replace(path, data, sync=sync)

    api.files.replace = count
    answer = api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t", "u"])
    assert [result.error_code for result in answer.responses] == [0, 0]
    assert api.files.read_all(START) == b"0\n0\n"
    assert len(replaced) == 1
    assert replaced[0] is not threading.current_thread()
