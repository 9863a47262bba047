"""Tests of the tail of a topic. Against real brokers: tests/clients/test_watch.py."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.watch.tail import TopicTail
from ottla.core.errors import StorageError
from ottla.core.groups.log.group_filter import group_of_record
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import decode_batch
from ottla.storage.archive.partition_folders import FolderProblems, find_partitions, read_batches
from ottla.storage.archive.writer import ArchiveWriter
from ottla.storage.files import OsFiles
from ottla.testing.kit.offsets_topic_records import commit

Start = Callable[..., TopicTail]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def start(cluster: Any, tmp_path: Path, notes: list[str]) -> Start:
    """`start(groups=None)` is a new run on the same archive; the run before is over."""
    opened: list[ArchiveWriter] = []

    def run(groups: Sequence[str] | None = None) -> TopicTail:
        for each in opened:
            each.close()
        opened.append(ArchiveWriter(OsFiles(tmp_path), now_ms=0, groups=groups))
        return TopicTail(CONSUMER_OFFSETS, admin=cluster, fetcher=cluster, archive=opened[-1], groups=groups, note=notes.append)

    return run


def stored(directory: Path) -> list[Record]:
    files = OsFiles(directory)
    found = [
        batch for folder in find_partitions(files, CONSUMER_OFFSETS).values() for batch in read_batches(files, folder, FolderProblems())
    ]
    return [record for batch in found for record in decode_batch(batch.data)]


def records(tail: TopicTail) -> int:
    """How many it has appended when it has caught up."""
    return sum(appended.records for appended in tail.catch_up())


def test_everything_once_through_several_runs(cluster: Any, start: Start, tmp_path: Path, notes: list[str]) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1), commit("g", 0, 2))
    cluster.add(CONSUMER_OFFSETS, 1, commit("h", 0, 1))
    tail = start()
    assert records(tail) == 3
    assert records(tail) == 0
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 3))
    assert records(start()) == 1
    assert [(record.offset, record.key) for record in stored(tmp_path)] == [
        *((offset, commit("g", 0, 0)[0]) for offset in (0, 1, 2)),
        (0, commit("h", 0, 0)[0]),
    ]
    assert notes == []


def test_deleted_records_are_noted(cluster: Any, start: Start, notes: list[str]) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    records(start())
    for number in range(3):
        cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, number))
    cluster.starts[TopicPartition(CONSUMER_OFFSETS, 0)] = 3
    assert records(start()) == 1
    assert notes == ["__consumer_offsets-0: the records from offset 1 to 2 were deleted"]


def test_a_truncated_log_is_noted_once(cluster: Any, start: Start, notes: list[str]) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1), commit("g", 0, 2))
    records(start())
    cluster.logs[CONSUMER_OFFSETS][0].clear()
    tail = start()
    assert records(tail) == records(tail) == 0
    assert notes == ["__consumer_offsets-0 was truncated to offset 0: new records count from offset 2 on"]


def test_chosen_groups_and_where_they_live(cluster: Any, start: Start, tmp_path: Path) -> None:
    # Java's hash of "g" is 103 and of "h" is 104.
    cluster.add(CONSUMER_OFFSETS, 0, commit("h", 0, 1))
    cluster.add(CONSUMER_OFFSETS, 1, commit("g", 0, 1), commit("i", 0, 1))
    cluster.add(CONSUMER_OFFSETS, 1, commit("i", 0, 1))
    assert records(start(["g"])) == 1
    assert [group_of_record(record.key) for record in stored(tmp_path)] == ["g"]
    assert {each.partition.partition for each in cluster.fetched} == {1}
    cluster.fetched.clear()
    records(start(["g"]))
    assert cluster.fetched == []  # the batch without records has kept the position


def test_an_archive_of_another_cluster(cluster: Any, start: Start, tmp_path: Path) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    writer = ArchiveWriter(OsFiles(tmp_path), now_ms=0)
    writer.check_topic(CONSUMER_OFFSETS, "of another one")
    writer.close()
    with pytest.raises(StorageError, match="another cluster"):
        records(start())
