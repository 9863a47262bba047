"""Problems of the fetch machine as errors for its reader."""

from typing import Any

import pytest

from ottla.consumer.errors import (
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.consumer.fetch_problems import error_of
from ottla.core.consuming.fetch_values import OutOfRange, Problem, Recreated, Refused, Unknown, Unreachable
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

ZERO = TopicPartition("t", 0)
METADATA = 3


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (Recreated("t", "a", "b"), TopicRecreatedError, "topic t was deleted or made anew: its id was a, now it is b"),
        (Recreated("t", "a", ""), TopicRecreatedError, "its id was a, there is none of this id any more"),
        (Unreachable("nobody there"), BrokerUnavailableError, "nobody there"),
        (Refused(ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED), RequestFailedError, "partition 0 of topic t: TOPIC_AUTHORIZATION_FAILED"),
        (Unknown(ZERO), UnknownTopicError, "partition 0 of topic t does not exist"),
        (OutOfRange(ZERO, 20, 5, 20), OffsetOutOfRangeError, "ends at offset 20, but more records were expected"),
        (OutOfRange(ZERO, 3, 5, 20), OffsetOutOfRangeError, r"offset 3 of partition 0 of topic t is outside .* \(5 to 20\)"),
    ],
)
def test_each_problem_has_its_error(told: Any, problem: Problem, kind: type[ClientError], sentence: str) -> None:
    error = error_of(problem, told.brokers())
    assert type(error) is kind
    with pytest.raises(kind, match=sentence):
        raise error
    assert told.asked == []


def test_bounds_that_were_not_told_are_asked_for(told: Any) -> None:
    def answer(api_key: int, request: Any) -> Any:
        if api_key == METADATA:
            replicas: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}
            partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0} | replicas
            topic = {"error_code": 0, "name": "t", "topic_id": None, "partitions": (partition,)}
            brokers = ({"node_id": 1, "host": "a", "port": 1, "rack": None},)
            return {"brokers": brokers, "topics": (topic,), "cluster_id": None, "controller_id": 1}
        (asked,) = request.topics[0].partitions
        offset = {-2: 5, -1: 20}[asked.timestamp]
        item = {"partition_index": 0, "error_code": 0, "offset": offset, "timestamp": -1, "leader_epoch": 0}
        return {"topics": ({"name": "t", "partitions": (item,)},)}

    told.broker("a:1", answer)
    error = error_of(OutOfRange(ZERO, 99, -1, -1), told.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.partition, error.position, error.log_start_offset, error.end_offset) == (ZERO, 99, 5, 20)


def test_bounds_that_nobody_tells_are_left_open(told: Any) -> None:
    error = error_of(OutOfRange(ZERO, 99, -1, -1), told.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.log_start_offset, error.end_offset) == (-1, -1)
    assert str(error) == "offset 99 of partition 0 of topic t is outside what the broker holds"
