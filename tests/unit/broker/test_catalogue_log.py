"""The catalogue's log: appended first, then true; read back at every start."""

import pytest

from ottla.broker.catalogue_log import DIRECTORY, CatalogueLog
from ottla.core.catalogue.catalogue import Catalogue, NewTopic
from ottla.core.catalogue.records import RemoveTopicRecord, encode
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.storage.files import MemoryFiles
from ottla.storage.partition_log import PartitionLog


def open_log(files: MemoryFiles) -> CatalogueLog:
    log = CatalogueLog(files, Catalogue((1,), BrokerConfig({}).text), lambda: 5)
    log.open()
    return log


def test_it_replays_what_it_kept() -> None:
    files = MemoryFiles()
    first = open_log(files)
    first.append(first.catalogue.create_topic(NewTopic(name="t", partitions=3, configs={"retention.ms": "9"}), bytes(range(16))))
    second = open_log(files)
    assert second.catalogue.topics == first.catalogue.topics
    assert files.exists(f"{DIRECTORY}/00000000000000000000.log")


def test_nothing_is_true_that_could_not_be_kept(monkeypatch) -> None:
    log = open_log(MemoryFiles())

    def full(*_args, **_kwargs) -> None:
        raise StorageError("full")

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError):
        log.append(log.catalogue.create_topic(NewTopic(name="t"), bytes(16)))
    assert log.catalogue.topics == {}


@pytest.mark.parametrize("value", [b"", b"\x02\x02\x00", encode(RemoveTopicRecord(topic_id=bytes(16)))])
def test_a_record_that_cannot_be_replayed_stops_the_start(value: bytes) -> None:
    files = MemoryFiles()
    first = open_log(files)
    first._log.append_records([Record(0, 1, None, value)], now_ms=1)
    with pytest.raises(StorageError, match="offset 0 cannot be replayed"):
        open_log(files)
