"""Removing: later, or when the broker stops; what is gone already is no trouble, and what cannot go is named."""

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.partitions import removals as deleted_directories
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.removals import DeletedDirectories, DeletedTopic, Removals, is_deleted_directory
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record, TopicPartition


def files_with(*paths: str) -> MemoryFiles:
    files = MemoryFiles()
    for path in paths:
        files.make_directory(path.partition("/")[0])
        files.open(path).append(b"x")
    return files


def test_files_and_directories_go_after_their_delay() -> None:
    async def run() -> None:
        files = files_with("t-0/0.log.deleted", "u-0.1-delete/0.log")
        removals = Removals(files)
        removals.remove_later(("t-0/0.log.deleted",), 20)
        removals.remove_later(("u-0.1-delete",), 20)
        removals.remove_later((), 20)
        await asyncio.sleep(0)
        assert files.exists("t-0/0.log.deleted")
        async with asyncio.timeout(60):
            while files.exists("t-0/0.log.deleted") or files.exists("u-0.1-delete"):
                await asyncio.sleep(0.005)
        removals.close()

    asyncio.run(run())


def test_the_end_does_not_wait_for_the_delay() -> None:
    async def run() -> None:
        files = files_with("t-0/0.log.deleted", "t-0/0.log")
        removals = Removals(files)
        removals.remove_later(("t-0/0.log.deleted", "t-0/gone.deleted"), 2**62)
        removals.close()
        assert files.list("t-0") == ["0.log"]

    asyncio.run(run())


def test_what_cannot_be_removed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class ReadOnly(MemoryFiles):
        def remove(self, path: str) -> None:
            raise StorageError(f"cannot remove {path}: the file system is read-only")

    files = ReadOnly()
    files.make_directory("t-0")
    files.open("t-0/0.log.deleted")
    removals = Removals(files)
    removals.remove_now(["t-0/0.log.deleted"])
    removals.close()
    assert "t-0/0.log.deleted is not removed until the next start: cannot remove t-0/0.log.deleted" in caplog.text


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("t-0.0123456789abcdef0123456789abcdef-delete", True),
        ("a.b-c-12.0123456789abcdef0123456789abcdef-delete", True),
        ("photos-to-delete", False),
        ("t-0-delete", False),
        ("t-delete-0", False),
        ("t-0.0123456789abcdef0123456789abcdef-stray", False),
    ],
)
def test_only_directories_that_a_broker_renamed_are_removed(name: str, is_ours: bool) -> None:
    assert is_deleted_directory(name) is is_ours


class Case:
    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        self.moved: list[TopicPartition] = []
        self.removals = Removals(files)
        self.pool = ThreadPoolExecutor(1)
        self.directories = DeletedDirectories(files, self.removals, self.pool, self.moved.extend)

    def partition(self, number: int = 0) -> Partition:
        log = PartitionLog(self.files, f"t-{number}", LogSettings())
        log.append_records([Record(0, 5, None, b"x")], now_ms=5)
        return Partition(TopicPartition("t", number), log, leader=1)

    def delete(self, *in_use: Partition, unused: tuple[TopicPartition, ...] = (), openings: tuple[Any, ...] = ()) -> None:
        self.directories.move(DeletedTopic(name="t", in_use=in_use, unused=unused, openings=openings, delete_delay_ms=60_000))

    async def settle(self) -> None:
        while tasks := self.directories.under_way():
            await asyncio.wait(tasks)


def run(steps: Callable[[Case], Any], files: MemoryFiles | None = None) -> None:
    async def with_case() -> None:
        case = Case(files or MemoryFiles())
        await steps(case)
        await case.settle()
        case.removals.close()
        case.pool.shutdown()

    asyncio.run(with_case())


def test_open_and_unopened_partitions_get_other_names_in_a_worker_thread() -> None:
    class Watched(MemoryFiles):
        threads: list[threading.Thread] = []

        def rename_directory(self, old: str, new: str) -> None:
            self.threads.append(threading.current_thread())
            super().rename_directory(old, new)

    files = Watched()

    async def steps(case: Case) -> None:
        partition = case.partition()
        files.make_directory("t-1")
        case.delete(partition, unused=(TopicPartition("t", 1), TopicPartition("t", 2)))
        assert case.directories.moving("u") is None
        await case.directories.moving("t")  # type: ignore[misc]
        assert partition.deleted
        assert case.moved == [TopicPartition("t", number) for number in range(3)]
        assert all(re.fullmatch(r"t-[01]\.[0-9a-f]{32}-delete", name) for name in files.list(""))
        assert threading.current_thread() not in files.threads
        assert case.directories.moving("t") is None

    run(steps, files)
    assert files.list("") == [], "the end removes what waits"


def test_it_waits_for_openings_and_for_an_earlier_topic_of_the_name() -> None:
    async def steps(case: Case) -> None:
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        case.delete(case.partition(), openings=(first,))
        case.delete(unused=(TopicPartition("t", 1),), openings=(second,))
        second.set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)
        assert case.moved == []
        first.set_result(None)
        await case.settle()
        assert [name.partition for name in case.moved] == [1], "of the last one only: until then no directory of the name may be made"
        assert len(case.files.list("")) == 1

    run(steps)


def test_the_partitions_of_a_large_topic_end_over_several_iterations(monkeypatch) -> None:
    monkeypatch.setattr(deleted_directories, "_ENDED_PER_ITERATION", 2)

    async def steps(case: Case) -> None:
        partitions = [case.partition(number) for number in range(5)]
        case.delete(*partitions)
        counts = []
        while not partitions[-1].deleted:
            counts.append(sum(each.deleted for each in partitions))
            await asyncio.sleep(0)
        assert counts == [0, 2, 4]

    run(steps)


def test_what_cannot_be_renamed_is_named_and_the_others_go(caplog) -> None:
    class Stuck(MemoryFiles):
        def rename_directory(self, old: str, new: str) -> None:
            if old == "t-0":
                raise StorageError("cannot rename t-0: the disk reports an error")
            super().rename_directory(old, new)

    async def steps(case: Case) -> None:
        case.delete(case.partition(0), case.partition(1))
        await case.settle()
        assert case.moved == [TopicPartition("t", 1)]
        assert case.files.exists("t-0")

    run(steps, Stuck())
    assert "t-0 of the deleted topic stays: cannot rename t-0" in caplog.text
