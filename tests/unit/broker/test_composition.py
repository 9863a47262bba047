"""One broker's state: who it is, and topics whose truth is the cluster metadata's log."""

import pytest

from ottla.broker.composition import Components
from ottla.broker.partitions.partitions import log_settings
from ottla.config import BrokerConfig
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.records import ConfigRecord
from ottla.metadata.resource_configs import TOPIC_RESOURCE
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import StorageError
from ottla.protocol.wire.api_keys import ApiKey


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
    assert api.cluster.cluster_metadata.topics == {}
    answer = api.ask(ApiKey.CREATE_TOPICS, 7, timeout=1, validate_only=False, topics=[
        {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    ])  # fmt: skip
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (56, "the disk is full")


def test_a_directory_that_is_not_ours_is_left_alone() -> None:
    files = MemoryFiles()
    text = b"version=1\ncluster.id=x\nnode.id=7\n"
    files.replace("meta.properties", text)
    with pytest.raises(StorageError, match="belongs to node 7"):
        Components(files, BrokerConfig({})).open()
    assert files.read_all("meta.properties") == text


def test_a_setting_in_the_directory_that_cannot_be_is_named_and_its_default_used(make_api, caplog) -> None:
    first = make_api()
    first.cluster.topics.create(NewTopic(name="t"))
    for name, value in (("compression.type", ""), ("segment.bytes", "1_048_576"), ("retention.ms", " +5 ")):
        record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=value)
        first.cluster.metadata_log.append([record])
    first.cluster.close()
    with caplog.at_level("WARNING"):
        second = make_api(files=first.files)
    assert [record.getMessage().split(": String")[0] for record in caplog.records if "topic t" in record.getMessage()] == [
        "topic t: Invalid value  for configuration compression.type",
        "topic t: Invalid value 1_048_576 for configuration segment.bytes: Not a number of type INT;"
        " its default is used until it is set again or deleted (kafka-configs --alter)",
    ]
    settings = log_settings(second.cluster.cluster_metadata, second.cluster.cluster_metadata.topics["t"])
    assert (settings.compression_type, settings.segment_bytes, settings.retention_ms) == ("producer", 1073741824, 5)


def test_a_thousand_of_them_are_a_number(make_api, caplog) -> None:
    first = make_api()
    first.cluster.metadata_log.append(
        [ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=f"t{n}", name="retention.ms", value="soon") for n in range(1000)]
    )
    first.cluster.close()
    with caplog.at_level("WARNING"):
        make_api(files=first.files)
    said = [record.getMessage() for record in caplog.records if record.name == "ottla.broker.composition"]
    assert len(said) == 21
    assert said[-1] == "980 more settings in the data directory are invalid: their defaults are used"
