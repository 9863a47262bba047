"""Metadata in both versions; its use: test_brokers.py and test_topics.py."""

from typing import Any
from uuid import UUID

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.metadata import request_metadata, topic_id_text
from ottla.core.client.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey

REPLICAS: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}


def answer(api_key: int, request: Any) -> Any:
    names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
    partition = {"error_code": ErrorCode.REPLICA_NOT_AVAILABLE, "partition_index": 4, "leader_id": 2, "leader_epoch": 8} | REPLICAS
    topics = [
        {"error_code": ErrorCode.NONE, "name": name, "topic_id": UUID(int=5), "is_internal": True, "partitions": [partition]}
        | {"topic_authorized_operations": 0}
        for name in names
    ]
    brokers = [{"node_id": 2, "host": "b", "port": 22, "rack": "r"}]
    return {"brokers": brokers, "topics": topics, "cluster_id": None, "controller_id": 2, "cluster_authorized_operations": 0}


@pytest.mark.parametrize(("newest", "topic_id"), [(12, "AAAAAAAAAAAAAAAAAAAABQ"), (11, "")])
@pytest.mark.parametrize("topics", [None, ["t"]])
def test_brokers_and_topics(scripted: Any, newest: int, topic_id: str, topics: list[str] | None) -> None:
    scripted.api_versions[ApiKey.METADATA] = range(newest + 1)
    scripted.broker("a:1", answer)
    brokers = scripted.brokers()
    connection = brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x"))
    view = request_metadata(connection, topics)
    assert view.endpoints == {2: BrokerEndpoint(2, "b", 22)}
    partitions = {4: PartitionMetadata(ErrorCode.REPLICA_NOT_AVAILABLE, LeaderAndEpoch(2, 8))}
    assert view.topics == (TopicMetadata("t", ErrorCode.NONE, topic_id, True, partitions),)


def test_racks_of_replicas(scripted: Any) -> None:
    def with_replicas(api_key: int, request: Any) -> Any:
        found = answer(api_key, request)
        found["topics"][0]["partitions"][0] |= {"replica_nodes": (2, 3, 4)}
        found["brokers"].append({"node_id": 3, "host": "c", "port": 33, "rack": None})
        return found

    scripted.broker("a:1", with_replicas)
    brokers = scripted.brokers()
    (topic,) = request_metadata(brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x")), ["t"]).topics
    assert topic.partitions[4].racks == frozenset({"r"})


def test_no_id_is_no_text() -> None:
    assert topic_id_text(None) == topic_id_text(UUID(int=0)) == ""
