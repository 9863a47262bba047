"""Metadata in both versions; what is done with it is shown in test_brokers.py and test_topics.py."""

from typing import Any
from uuid import UUID

import pytest

from ottla.consumer.admin.values import Node
from ottla.consumer.metadata import ask_metadata, topic_id_text
from ottla.core.consuming.cluster_view import Leader, PartitionView, TopicView
from ottla.core.errors import ErrorCode

REPLICAS: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}


def answer(api_key: int, request: Any) -> Any:
    names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
    partition = {"error_code": 9, "partition_index": 4, "leader_id": 2, "leader_epoch": 8} | REPLICAS
    topics = [
        {"error_code": 0, "name": name, "topic_id": UUID(int=5), "is_internal": True, "partitions": [partition]}
        | {"topic_authorized_operations": 0}
        for name in names
    ]
    brokers = [{"node_id": 2, "host": "b", "port": 22, "rack": "r"}]
    return {"brokers": brokers, "topics": topics, "cluster_id": None, "controller_id": 2, "cluster_authorized_operations": 0}


@pytest.mark.parametrize(("newest", "topic_id"), [(12, "AAAAAAAAAAAAAAAAAAAABQ"), (11, "")])
@pytest.mark.parametrize("topics", [None, ["t"]])
def test_brokers_and_topics(told: Any, newest: int, topic_id: str, topics: list[str] | None) -> None:
    told.spoken[3] = range(newest + 1)
    told.broker("a:1", answer)
    brokers = told.brokers()
    connection = brokers.node(Node(1, "a", 1), brokers.deadline("x"))
    view = ask_metadata(connection, topics)
    assert view.nodes == {2: Node(2, "b", 22)}
    partitions = {4: PartitionView(ErrorCode.REPLICA_NOT_AVAILABLE, Leader(2, 8))}
    assert view.topics == (TopicView("t", ErrorCode.NONE, topic_id, True, partitions),)


def test_no_id_is_no_text() -> None:
    assert topic_id_text(None) == topic_id_text(UUID(int=0)) == ""
