"""Tests of the tail of a topic. Against real brokers: tests/clients/test_watch.py."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.errors import BrokerUnavailableError
from ottla.groups.log.records import group_of_record
from ottla.history.sources.archive import ArchiveWriter, FolderProblems, find_partitions, read_batches
from ottla.history.watch import TopicTail, Watch
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import decode_batch
from tests.support.kit.offsets_topic_records import commit

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


# Tests of one look after another.


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def watch(cluster: Any, tmp_path: Path, said: list[str]) -> Iterator[Watch]:
    archive = ArchiveWriter(OsFiles(tmp_path), now_ms=0)
    yield Watch(admin=cluster, fetcher=cluster, archive=archive, groups=None, now_ms=lambda: 5, say=said.append)
    archive.close()


def lines(directory: Path) -> list[dict[str, Any]]:
    (path,) = (directory / "snapshots").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_look_stores_records_events_and_groups(cluster: Any, watch: Watch, tmp_path: Path, said: list[str]) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    cluster.add(GROUP_EVENTS, 0, (b"g", b"{}"))
    cluster.set_group("g", "m")
    watch.look()
    watch.look()
    summary = watch.summary
    assert (summary.looks, summary.groups, summary.records, summary.reads_topic) == (2, 1, 2, True)
    assert [line["kind"] for line in lines(tmp_path)] == ["topics", "group", "offsets", "look", "look"]
    assert summary.stored_bytes > 0
    assert said == []


def test_a_group_that_cannot_be_asked_for_a_moment_is_not_gone(
    cluster: Any, watch: Watch, tmp_path: Path, said: list[str], monkeypatch: Any
) -> None:
    cluster.set_group("g", "m")
    cluster.offsets["g"] = {TopicPartition("t", 0): CommittedOffset(7)}
    described = cluster.groups["g"]
    watch.look()
    before = [line["kind"] for line in lines(tmp_path)]
    cluster.groups["g"] = Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    watch.look()
    monkeypatch.setattr(cluster, "list_groups", list)  # its coordinator has moved, and the next one has not loaded it yet
    watch.look()
    cluster.groups["g"] = described
    watch.look()
    assert watch.summary.groups == 1
    monkeypatch.setattr(cluster, "committed", lambda names: dict.fromkeys(names, Failure(ErrorCode.NOT_COORDINATOR)))
    watch.look()
    assert [each.committed for each in watch.snapshots] == [{TopicPartition("t", 0): 7}]
    assert [line["kind"] for line in lines(tmp_path)] == [*before, "note", *["look"] * 4]
    assert len(said) == 1
    del cluster.groups["g"]
    watch.look()
    assert [line.get("state") for line in lines(tmp_path)][-2:] == ["Dead", None]


def test_offsets_are_looked_at_once_a_minute(cluster: Any, tmp_path: Path) -> None:
    archive, now = ArchiveWriter(OsFiles(tmp_path), now_ms=0), 0
    watch = Watch(admin=cluster, fetcher=cluster, archive=archive, groups=None, now_ms=lambda: now, say=lambda _: None)
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    cluster.set_group("g", "m")
    for now in (0, 30_000, 59_999, 60_000, 90_000):
        cluster.offsets["g"] = {TopicPartition("t", 0): CommittedOffset(now)}
        watch.look()
    archive.close()
    assert [line["offsets"][0][2] for line in lines(tmp_path) if line["kind"] == "offsets"] == [0, 60_000]


def test_before_the_topic_exists(watch: Watch, said: list[str]) -> None:
    watch.look()
    assert watch.summary.reads_topic is None
    assert said == []


def test_a_topic_that_may_not_be_read_is_said_once_and_groups_are_polled(
    cluster: Any, watch: Watch, tmp_path: Path, said: list[str]
) -> None:
    cluster.set_group("g", "m")
    cluster.refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    watch.look()
    watch.look()
    (sentence,) = said
    assert "TOPIC_AUTHORIZATION_FAILED" in sentence
    assert "only polled" in sentence
    assert (watch.summary.reads_topic, watch.summary.groups) == (False, 1)
    assert [line["kind"] for line in lines(tmp_path)].count("note") == 1
    cluster.refused = None
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    watch.look()
    assert (watch.summary.reads_topic, watch.summary.records) == (True, 1)


def test_a_cluster_that_is_away_is_said_once_and_tried_again(cluster: Any, watch: Watch, said: list[str], monkeypatch: Any) -> None:
    def fail() -> None:
        raise BrokerUnavailableError("no broker answers")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "list_groups", fail)
        watch.try_look()
        watch.try_look()
        with pytest.raises(BrokerUnavailableError):
            watch.look()
    watch.try_look()
    assert (watch.summary.failed_looks, watch.summary.looks) == (2, 1)
    assert said == ["no broker answers; it is tried again at the next look"]
