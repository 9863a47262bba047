"""Topics, leaders and offsets by time: retriable errors and refusals. Against real brokers: test_client.py."""

from typing import Any
from uuid import UUID

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.topics import broker_of, describe_cluster, describe_topics, list_offsets, list_topics, reach_leaders
from ottla.client.admin.values import LATEST, DescribedPartition, DescribedTopic, Failure, ListedOffset
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

ZERO = TopicPartition("t", 0)
ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def metadata(*leaders: int, code: int = 0) -> dict[str, Any]:
    partitions = [
        {
            "error_code": ErrorCode.NONE,
            "partition_index": at,
            "leader_id": leader,
            "leader_epoch": 7,
            "replica_nodes": (),
            "isr_nodes": (),
            "offline_replicas": (),
        }
        for at, leader in reversed(list(enumerate(leaders)))
    ]
    topic = {"error_code": code, "name": "t", "topic_id": UUID(int=1), "partitions": partitions}
    brokers = [{"node_id": number, "host": host, "port": number, "rack": None} for number, host in ((1, "a"), (2, "b"))]
    return {"brokers": brokers, "topics": [topic], "cluster_id": None, "controller_id": 1, "cluster_authorized_operations": 0}


def answering(scripted: Any, *answers: Any) -> None:
    """Both brokers send these responses, one after another."""
    waiting = list(answers)
    for place in ("a:1", "b:2"):
        scripted.broker(place, lambda key, request: waiting.pop(0) if len(waiting) > 1 else waiting[0])


def offsets(*found: tuple[int, int, int]) -> dict[str, Any]:
    items = [
        {"partition_index": number, "error_code": code, "offset": at, "timestamp": 99, "leader_epoch": 3} for number, code, at in found
    ]
    return {"topics": [{"name": "t", "partitions": items}]}


def test_every_leader_is_reached_and_no_other_broker(scripted: Any) -> None:
    answering(scripted, metadata(2, -1, 2))
    reach_leaders(scripted.brokers("a:1"), ["t"])
    assert scripted.connected == ["a:1", "b:2"]
    reach_leaders(scripted.brokers("a:1"), [])
    del scripted.answers["b:2"]
    with pytest.raises(DeadlineExceededError, match=r"reachLeaders \(no connection to broker b:2\)"):
        reach_leaders(scripted.brokers("a:1"), ["t"])


def test_partitions_in_order_with_their_leaders(scripted: Any) -> None:
    answering(scripted, metadata(2, -1, 1))
    topic = describe_topics(scripted.brokers(), ["t", "other"])
    assert topic == {"t": DescribedTopic("t", {0: 2, 1: None, 2: 1}, ID), "other": Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert list(topic["t"].leaders) == [0, 1, 2]  # type: ignore[union-attr]
    assert describe_topics(scripted.brokers(), []) == {}


def test_racks_of_replicas(scripted: Any) -> None:
    found = metadata(1, 1)
    found["brokers"][0]["rack"] = "r"
    found["topics"][0]["partitions"][0]["replica_nodes"] = (1, 2)
    answering(scripted, found)
    assert describe_topics(scripted.brokers(), ["t"]) == {"t": DescribedTopic("t", {0: 1, 1: 1}, ID, racks={1: frozenset({"r"})})}


def test_a_partition_whose_leader_does_not_listen_here_is_one_without_a_leader(scripted: Any) -> None:
    answer = metadata(2, -1)
    for partition in answer["topics"][0]["partitions"]:
        partition["error_code"] = ErrorCode.LISTENER_NOT_FOUND if partition["leader_id"] == -1 else 0
    answering(scripted, answer)
    assert describe_topics(scripted.brokers(), ["t"]) == {"t": DescribedTopic("t", {0: 2, 1: None}, ID)}


def test_a_topic_that_is_being_created_and_one_that_is_refused(scripted: Any) -> None:
    answering(scripted, metadata(code=ErrorCode.LEADER_NOT_AVAILABLE), metadata(1))
    assert describe_topics(scripted.brokers(), ["t"]) == {"t": DescribedTopic("t", {0: 1}, ID)}
    answering(scripted, metadata(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert describe_topics(scripted.brokers(), ["t"]) == {"t": Failure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


def test_each_leader_gets_a_request_for_its_own_partitions(scripted: Any) -> None:
    asked = []

    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.METADATA:
            return metadata(1, 2, 1)
        numbers = {item.partition_index: item.timestamp for item in request.topics[0].partitions}
        asked.append((numbers, request.isolation_level))
        return offsets(*((number, 0, 10 + number) for number in numbers))

    scripted.broker("a:1", answer).broker("b:2", answer)
    found = list_offsets(scripted.brokers(), {TopicPartition("t", number): 70 + number for number in (2, 1, 0)})
    assert found == {TopicPartition("t", number): ListedOffset(10 + number, 99, 3) for number in (2, 1, 0)}
    assert asked == [({2: 72, 0: 70}, 0), ({1: 71}, 0)]
    assert list_offsets(scripted.brokers(), {}) == {}


def test_a_moved_leader_is_looked_up_again(scripted: Any) -> None:
    answering(scripted, metadata(1), offsets((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)), metadata(2), offsets((0, 0, 5)))
    assert list_offsets(scripted.brokers(), {ZERO: LATEST}) == {ZERO: ListedOffset(5, 99, 3)}
    assert scripted.asked == [
        ("a:1", ApiKey.METADATA),
        ("a:1", ApiKey.LIST_OFFSETS),
        ("a:1", ApiKey.METADATA),
        ("b:2", ApiKey.LIST_OFFSETS),
    ]


def test_no_leader_in_time(scripted: Any) -> None:
    answering(scripted, metadata(-1))
    with pytest.raises(DeadlineExceededError, match="the last: t-0 has no leader"):
        list_offsets(scripted.brokers(timeout_ms=250), {ZERO: LATEST})


@pytest.mark.parametrize(
    ("answer", "sentence"), [(offsets((0, 29, -1)), "TOPIC_AUTHORIZATION_FAILED"), (offsets(), "did not answer for all")]
)
def test_a_refusal_and_an_incomplete_response(scripted: Any, answer: Any, sentence: str) -> None:
    answering(scripted, metadata(1), answer)
    with pytest.raises(RequestFailedError, match=sentence):
        list_offsets(scripted.brokers(), {ZERO: LATEST})


def test_a_topic_that_is_deleted_before_its_offsets_are_listed(scripted: Any) -> None:
    answering(
        scripted, metadata(1), offsets((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)), metadata(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    )
    with pytest.raises(UnknownTopicError, match="topic t does not exist"):
        list_offsets(scripted.brokers(), {ZERO: LATEST})
    answering(scripted, metadata(code=ErrorCode.LEADER_NOT_AVAILABLE), metadata(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(RequestFailedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        list_offsets(scripted.brokers(), {ZERO: LATEST})


def test_a_broker_by_its_id(scripted: Any) -> None:
    answering(scripted, metadata())
    assert broker_of(scripted.brokers(), 2) == BrokerEndpoint(2, "b", 2)
    with pytest.raises(DeadlineExceededError, match="broker 7 is not there"):
        broker_of(scripted.brokers(timeout_ms=250), 7)


def test_every_topic_but_those_that_are_being_created(scripted: Any) -> None:
    answering(scripted, metadata(1), metadata(code=ErrorCode.LEADER_NOT_AVAILABLE))
    brokers = scripted.brokers()
    assert list_topics(brokers) == {"t": DescribedTopic("t", {0: 1}, ID)}
    assert list_topics(brokers) == {}


def test_the_end_of_committed_records(scripted: Any) -> None:
    isolation = []

    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.METADATA:
            return metadata(1)
        isolation.append(request.isolation_level)
        return offsets((0, 0, 5))

    scripted.broker("a:1", answer)
    list_offsets(scripted.brokers(is_read_committed=True), {ZERO: LATEST})
    assert isolation == [1]


def test_a_cluster_with_topics_that_were_asked_for_and_without_others_that_are_refused(scripted: Any) -> None:
    answering(scripted, metadata(2, -1))
    found = describe_cluster(scripted.brokers("a:1"), ["t"])
    assert (found.cluster_id, found.controller_id, sorted(found.brokers)) == ("", 1, [1, 2])
    assert found.topics == {"t": {0: DescribedPartition(2, (), ()), 1: DescribedPartition(None, (), ())}}
    answering(scripted, metadata(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert describe_cluster(scripted.brokers("a:1"), ["t"]).topics == {"t": Failure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    assert describe_cluster(scripted.brokers("a:1"), None).topics == {}
