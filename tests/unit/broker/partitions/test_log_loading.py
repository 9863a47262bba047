"""Loading a log: as its directory has it, a stray one put aside, and what is lent is given back."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.partitions.log_loading import LogLoader, find_partitions, log_missing, renamed_directory
from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def topic(api) -> Topic:
    return api.cluster.topics.ensure("t")


def loader(files: MemoryFiles) -> LogLoader:
    return LogLoader(files, lambda: 5, OffsetCheckpoints(files))


def append(log: PartitionLog) -> None:
    log.append_records([Record(0, 5, None, b"x")], now_ms=5)


def test_a_new_log_asks_the_disk_nothing(topic: Topic) -> None:
    class NoDisk(MemoryFiles):
        def exists(self, path: str) -> bool:
            raise AssertionError(path)

        def list(self, directory: str) -> list[str]:
            raise AssertionError(directory)

    log = loader(NoDisk()).new(topic, 0, LogSettings())
    assert (log.directory, log.log_start_offset, log.log_end_offset) == ("t-0", 0, 0)


def test_a_log_is_loaded_as_its_directory_has_it(topic: Topic) -> None:
    files = MemoryFiles()
    log = loader(files).new(topic, 0, LogSettings())
    append(log)
    log.close()
    found = loader(files).load(topic, 0, LogSettings())
    assert (found.log.log_end_offset, found.opened.clean) == (1, True)


@pytest.mark.parametrize("torn", [b"", None])
def test_what_may_be_a_deleted_topics_is_put_aside(api, caplog: pytest.LogCaptureFixture, torn: bytes | None) -> None:
    api.cluster.topics.ensure("t")
    assert api.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1000).responses[0].error_code == ErrorCode.NONE
    topic = api.cluster.topics.ensure("t")
    files = MemoryFiles()
    append(loader(files).new(topic, 0, LogSettings()))
    files.remove("t-0/partition.metadata")
    if torn is not None:
        files.replace("t-0/partition.metadata", torn)
    assert loader(files).load(topic, 0, LogSettings()).log.log_end_offset == 0
    (stray,) = files.list("")
    assert stray.endswith("-stray")
    assert f"t-0 does not say of which topic it is: it is kept as {stray}, and nothing reads it" in caplog.messages


def test_what_is_lent_is_changed_or_not(topic: Topic) -> None:
    files = MemoryFiles()
    log = loader(files).new(topic, 0, LogSettings())
    append(log)
    append(log)
    log.close()
    unchanged = loader(files).lend(topic, 0, LogSettings(), lambda log: log.log_end_offset)
    assert (unchanged.result, unchanged.is_changed) == (2, False)
    changed = loader(files).lend(topic, 0, LogSettings(), lambda log: log.delete_records(1))
    assert (changed.result, changed.is_changed, changed.loaded.log.log_start_offset) == (1, True, 1)


def test_a_borrower_that_fails_is_logged(topic: Topic) -> None:
    def fail(_log: PartitionLog) -> None:
        raise StorageError("no room")

    with pytest.raises(StorageError, match="no room"):
        loader(MemoryFiles()).lend(topic, 0, LogSettings(), fail)


def test_a_directory_that_is_put_aside_keeps_its_number_and_stays_a_file_name() -> None:
    long = renamed_directory("x" * 249 + "-17", "-delete")
    assert len(long) == 255
    assert long.partition(".")[0].endswith("-17")
    assert renamed_directory("t-0", "-stray").startswith("t-0.")


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
    assert caplog.messages == ["1 partitions had records at the last checkpoint, and their directories are gone: t-0"]
    assert names == {TopicPartition("a-b", 0), TopicPartition("t", 0), TopicPartition("t", 1)}
