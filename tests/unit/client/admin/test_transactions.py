"""Transactions and producers as brokers describe them; against brokers: tests/kafka."""

from typing import Any

from ottla.client.admin.transactions import describe_producers
from ottla.client.admin.values import Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

ZERO = TopicPartition("orders", 0)


def answering(scripted: Any, *codes: ErrorCode) -> None:
    """One broker, the leader of orders-0, whose DescribeProducers have these codes in turn."""
    left = list(codes)

    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.METADATA:
            brokers = [{"node_id": 1, "host": "a", "port": 1, "rack": None}]
            partition: dict[str, Any] = {"partition_index": 0, "leader_id": 1, "leader_epoch": 0, "error_code": ErrorCode.NONE}
            partition |= {"replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
            topic: dict[str, Any] = {"name": "orders", "error_code": ErrorCode.NONE, "is_internal": False, "partitions": [partition]}
            topic |= {"topic_authorized_operations": 0, "topic_id": None}
            return {"brokers": brokers, "topics": [topic], "cluster_id": None, "controller_id": 1, "cluster_authorized_operations": 0}
        assert api_key == ApiKey.DESCRIBE_PRODUCERS
        partition = {"partition_index": 0, "error_code": left.pop(0), "error_message": None, "active_producers": []}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    scripted.broker("a:1", answer)


def test_the_leader_is_asked_again_a_replica_that_is_named_is_not(scripted: Any) -> None:
    answering(scripted, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    assert describe_producers(scripted.brokers(), [ZERO]) == {ZERO: ()}
    answering(scripted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert describe_producers(scripted.brokers(), [ZERO], broker_id=1) == {ZERO: Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)}
    answering(scripted, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    assert describe_producers(scripted.brokers(), [ZERO], broker_id=1) == {ZERO: ()}
