"""Which partitions a data directory holds, and what is said of those that are missing."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.logs.offset_checkpoints import OffsetCheckpoints
from ottla.broker.logs.partition_discovery import find_partitions, log_missing
from ottla.core.model import TopicPartition
from ottla.storage.memory_files import MemoryFiles

TOPICS: Any = {"t": SimpleNamespace(leaders=[1, 1]), "a-b": SimpleNamespace(leaders=[1])}


def test_directories_of_topics_and_others() -> None:
    found = find_partitions(["t-0", "t-1", "t-2", "a-b-0", "gone-3", "t-x", "lost+found"], TOPICS)
    assert found.partitions == [(TOPICS["t"], 0), (TOPICS["t"], 1), (TOPICS["a-b"], 0)]
    assert found.unknown == ["t-2", "gone-3", "t-x", "lost+found"]
    assert found.names == {TopicPartition(*name) for name in (("t", 0), ("t", 1), ("t", 2), ("a-b", 0), ("gone", 3))}


def test_partitions_that_had_records_and_have_no_directory(caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = OffsetCheckpoints(MemoryFiles())
    for name, offset in ((("t", 0), 5), (("t", 1), 0), (("gone", 0), 5), (("a-b", 0), 5)):
        checkpoints.note_durable(TopicPartition(*name), offset)
    names = {TopicPartition("a-b", 0)}
    log_missing(checkpoints, TOPICS, names)
    assert caplog.messages == ["1 partitions had records when they were last synced, and their directories are gone: t-0"]
    assert names == {TopicPartition("a-b", 0), TopicPartition("t", 0), TopicPartition("t", 1)}
