"""The catalogue's log: appended first, then true; read back at every start."""

import pytest

from ottla.broker.catalogue_log import DIRECTORY, CatalogueLog
from ottla.core.catalogue.catalogue import Catalogue, NewTopic
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
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
