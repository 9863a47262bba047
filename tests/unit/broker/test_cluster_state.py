"""One broker's state: who it is, and topics whose truth is the catalogue's log."""

import pytest

from ottla.broker.cluster_state import ClusterState
from ottla.core.catalogue.catalogue import NewTopic
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.storage.memory_files import MemoryFiles
from ottla.storage.partition_log import PartitionLog


def test_a_cluster_keeps_its_id(make_api) -> None:
    first = make_api()
    assert len(first.cluster.cluster_id) == 22
    assert make_api(files=first.files).cluster.cluster_id == first.cluster.cluster_id


def test_a_topic_whose_record_cannot_be_kept_does_not_exist(api, monkeypatch) -> None:
    def full(*_args, **_kwargs) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError):
        api.cluster.topics.create(NewTopic(name="t"))
    assert api.cluster.catalogue.topics == {}
    answer = api.ask(19, 7, timeout=1, validate_only=False, topics=[
        {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    ])  # fmt: skip
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (56, "the disk is full")


def test_producer_ids_come_in_blocks(api) -> None:
    ids = [api.cluster.next_producer_id() for _ in range(1001)]
    assert ids == list(range(1001))
    assert api.cluster.catalogue.next_producer_id == 2000


def test_a_directory_that_is_not_ours_is_left_alone() -> None:
    files = MemoryFiles()
    text = b"version=1\ncluster.id=x\nnode.id=7\n"
    files.replace("meta.properties", text)
    with pytest.raises(StorageError, match="belongs to node 7"):
        ClusterState(files, BrokerConfig({})).open()
    assert files.read_all("meta.properties") == text
