"""Loading a log: as its directory has it, a stray one put aside, and what is lent is given back."""

import pytest

from ottla.broker.logs.log_loading import LogLoader, renamed_directory
from ottla.broker.logs.offset_checkpoints import OffsetCheckpoints
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.metadata.topics import Topic
from ottla.core.model import Record
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles


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
