"""Problems of the fetch machine as errors for its reader."""

from typing import Any

import pytest

from ottla.client.errors import (
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.client.fetch.problems import error_of
from ottla.core.client.fetch_values import BrokersUnreachable, OffsetOutOfRange, PartitionRefused, Problem, TopicRecreated, UnknownPartition
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.core.wire.api_keys import ApiKey

ZERO = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (TopicRecreated("t", "a", "b"), TopicRecreatedError, "topic t was deleted or re-created: its id was a, now it is b"),
        (TopicRecreated("t", "a", ""), TopicRecreatedError, "its id was a, there is none of this id any more"),
        (BrokersUnreachable("no broker"), BrokerUnavailableError, "no broker"),
        (
            PartitionRefused(ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            RequestFailedError,
            "partition 0 of topic t: TOPIC_AUTHORIZATION_FAILED",
        ),
        (UnknownPartition(ZERO), UnknownTopicError, "partition 0 of topic t does not exist"),
        (OffsetOutOfRange(ZERO, 20, 5, 20), OffsetOutOfRangeError, "ends at offset 20, but more records were expected"),
        (OffsetOutOfRange(ZERO, 3, 5, 20), OffsetOutOfRangeError, r"offset 3 of partition 0 of topic t is outside .* \(5 to 20\)"),
    ],
)
def test_each_problem_has_its_error(scripted: Any, problem: Problem, kind: type[ClientError], sentence: str) -> None:
    error = error_of(problem, scripted.brokers())
    assert type(error) is kind
    with pytest.raises(kind, match=sentence):
        raise error
    assert scripted.asked == []


def test_unknown_bounds_are_requested(scripted: Any) -> None:
    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.METADATA:
            replicas: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}
            partition = {"error_code": ErrorCode.NONE, "partition_index": 0, "leader_id": 1, "leader_epoch": 0} | replicas
            topic = {"error_code": ErrorCode.NONE, "name": "t", "topic_id": None, "partitions": (partition,)}
            brokers = ({"node_id": 1, "host": "a", "port": 1, "rack": None},)
            return {"brokers": brokers, "topics": (topic,), "cluster_id": None, "controller_id": 1}
        (asked,) = request.topics[0].partitions
        offset = {-2: 5, -1: 20}[asked.timestamp]
        item = {"partition_index": 0, "error_code": ErrorCode.NONE, "offset": offset, "timestamp": -1, "leader_epoch": 0}
        return {"topics": ({"name": "t", "partitions": (item,)},)}

    scripted.broker("a:1", answer)
    error = error_of(OffsetOutOfRange(ZERO, 99, -1, -1), scripted.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.partition, error.position, error.log_start_offset, error.end_offset) == (ZERO, 99, 5, 20)


def test_bounds_stay_unknown_where_no_broker_answers(scripted: Any) -> None:
    error = error_of(OffsetOutOfRange(ZERO, 99, -1, -1), scripted.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.log_start_offset, error.end_offset) == (-1, -1)
    assert str(error) == "offset 99 of partition 0 of topic t is outside what the broker holds"
