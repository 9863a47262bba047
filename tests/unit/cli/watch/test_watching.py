"""Tests of one look after another."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.watch.watching import Watch
from ottla.client.admin.values import CommittedOffset
from ottla.client.errors import BrokerUnavailableError
from ottla.core.errors import ErrorCode
from ottla.core.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.core.model import TopicPartition
from ottla.storage.archive.writer import ArchiveWriter
from ottla.storage.files import OsFiles
from ottla.testing.kit.offsets_topic_records import commit


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
