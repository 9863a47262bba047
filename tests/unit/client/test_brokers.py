"""Connections, deadlines and retries of calls, without a socket and without waiting."""

from typing import Any
from uuid import UUID

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.brokers import request_metadata, topic_id_text
from ottla.client.deadlines import Deadline, DeadlineExceededError, NoBrokerReachedError, raise_for
from ottla.client.errors import BrokerUnavailableError, RequestFailedError
from ottla.client.fetch.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


def metadata(*nodes: tuple[int, str, int]) -> dict[str, Any]:
    brokers = [{"node_id": number, "host": host, "port": port, "rack": None} for number, host, port in nodes]
    return {"brokers": brokers, "topics": [], "cluster_id": None, "controller_id": 1, "cluster_authorized_operations": 0}


def test_the_first_reachable_broker_is_called_and_its_connection_kept(scripted: Any) -> None:
    scripted.broker("b:2", lambda key, request: metadata((1, "a", 1), (2, "b", 2)))
    brokers = scripted.brokers("a:1,b:2")
    for _ in range(2):
        assert brokers.endpoints(brokers.deadline("x")) == {1: BrokerEndpoint(1, "a", 1), 2: BrokerEndpoint(2, "b", 2)}
    assert scripted.connected == ["b:2"]
    assert brokers.endpoint(2) == BrokerEndpoint(2, "b", 2)
    with pytest.raises(RequestFailedError, match="broker 7 is not there"):
        brokers.endpoint(7)


def test_brokers_that_metadata_named_help_when_the_first_one_is_gone(scripted: Any) -> None:
    scripted.broker("a:1", lambda key, request: metadata((2, "b", 2))).broker("b:2", lambda key, request: metadata((2, "b", 2)))
    brokers = scripted.brokers("a:1")
    brokers.endpoints(brokers.deadline("x"))
    scripted.broker("a:1", lost)
    assert brokers.endpoints(brokers.deadline("x")) == {2: BrokerEndpoint(2, "b", 2)}
    assert scripted.asked == [("a:1", ApiKey.METADATA), ("a:1", ApiKey.METADATA), ("b:2", ApiKey.METADATA)]


def lost(key: int, request: Any) -> Any:
    raise BrokerUnavailableError("lost")


def test_an_interrupted_call_leaves_no_connection_with_its_response(scripted: Any) -> None:
    def interrupt(key: int, request: Any) -> Any:
        raise KeyboardInterrupt

    scripted.broker("a:1", interrupt)
    brokers = scripted.brokers()
    with pytest.raises(KeyboardInterrupt):
        brokers.endpoints(brokers.deadline("x"))
    scripted.broker("a:1", lambda key, request: metadata((1, "a", 1)))
    assert brokers.endpoints(brokers.deadline("x")) == {1: BrokerEndpoint(1, "a", 1)}
    assert scripted.connected == ["a:1", "a:1"]


def test_retriable_errors_are_retried_until_the_deadline(scripted: Any) -> None:
    brokers = scripted.brokers(timeout_ms=750)
    attempts = []

    def attempt(deadline: Deadline) -> int:
        attempts.append(deadline.left_ms())
        raise_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "partition 0")
        return 1

    with pytest.raises(
        DeadlineExceededError, match=r"Timed out after 4 attempt\(s\), the last: partition 0: NOT_LEADER_OR_FOLLOWER\. Call: lists"
    ):
        brokers.retry("lists", attempt)
    assert (len(attempts), scripted.waits) == (4, [0.1, 0.2, 0.4])


def test_a_refusal_is_not_retried(scripted: Any) -> None:
    brokers = scripted.brokers()

    def attempt(deadline: Deadline) -> int:
        raise_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t")
        return 1

    with pytest.raises(RequestFailedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        brokers.retry("lists", attempt)
    assert scripted.waits == []


def test_no_broker_is_reachable(scripted: Any) -> None:
    brokers = scripted.brokers(timeout_ms=350)
    with pytest.raises(DeadlineExceededError) as raised:
        brokers.retry("lists", brokers.endpoints)
    assert str(raised.value) == "Timed out waiting for a node assignment. Call: lists (no connection to broker a:1)"
    assert len(scripted.waits) == 2


def test_a_first_connection_has_less_time_than_a_call(scripted: Any) -> None:
    brokers = scripted.brokers(timeout_ms=60_000, bootstrap_timeout_ms=350)
    with pytest.raises(NoBrokerReachedError) as raised:
        brokers.retry("lists", brokers.endpoints)
    assert str(raised.value) == (
        "no broker of bootstrap.servers was reached in 350 ms (no connection to broker a:1): check the addresses, and that brokers run"
    )
    assert len(scripted.waits) == 2
    scripted.broker("a:1", lambda key, request: metadata((1, "a", 1)))
    brokers.retry("lists", brokers.endpoints)
    scripted.broker("a:1", lost)
    with pytest.raises(DeadlineExceededError, match="Timed out waiting for a node assignment"):
        brokers.retry("lists", brokers.endpoints)
    assert sum(scripted.waits) > 50, "a broker that was there may be away for as long as a call lasts"


def test_a_wrong_advertised_address_is_reported_as_soon_and_one_that_was_right_may_be_away_for_longer(scripted: Any) -> None:
    scripted.broker("a:1", lambda key, request: metadata((1, "a", 1), (2, "inside", 9)))
    brokers = scripted.brokers(timeout_ms=60_000, bootstrap_timeout_ms=350)

    def attempt(deadline: Deadline) -> None:
        brokers.connection(brokers.endpoints(deadline)[2], deadline)

    brokers.retry("describes", brokers.endpoints)
    with pytest.raises(NoBrokerReachedError) as raised:
        brokers.retry("lists", attempt)
    assert str(raised.value) == (
        "the cluster was reached, but not its broker 2 in 350 ms (no connection to broker inside:9): check advertised.listeners of that"
        " broker, that this machine can reach the address, and that the broker runs"
    )
    assert sum(scripted.waits) < 0.35
    scripted.broker("inside:9", lambda key, request: metadata())
    brokers.retry("lists", attempt)
    scripted.broker("a:1", lambda key, request: metadata((1, "a", 1), (2, "new", 8)))
    with pytest.raises(DeadlineExceededError, match="Timed out waiting for a node assignment") as later:
        brokers.retry("lists", attempt)
    assert not isinstance(later.value, NoBrokerReachedError)
    assert sum(scripted.waits) > 50, "a leader may move to a broker that restarts"


def test_a_broker_that_is_lost_before_the_first_leader_was_reached_may_be_away_for_as_long_as_a_call_lasts(scripted: Any) -> None:
    scripted.broker("a:1", lambda key, request: metadata((1, "a", 1)))
    brokers = scripted.brokers(timeout_ms=60_000, bootstrap_timeout_ms=350)
    brokers.retry("describes", brokers.endpoints)
    scripted.broker("a:1", lost)
    with pytest.raises(DeadlineExceededError, match="Timed out waiting for a node assignment"):
        brokers.retry("lists", lambda deadline: brokers.connection(brokers.endpoints(deadline)[1], deadline))
    assert sum(scripted.waits) > 50


def test_a_result_after_a_failure(scripted: Any) -> None:
    results = iter([BrokerUnavailableError("gone"), RequestFailedError("x", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 5])

    def attempt(deadline: Deadline) -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert scripted.brokers().retry("lists", attempt) == 5


def test_malformed_bootstrap_servers(scripted: Any) -> None:
    with pytest.raises(ValueError, match="'x' is no host:port"):
        scripted.brokers("x")


def test_a_connection_that_the_broker_closed_is_replaced(scripted: Any) -> None:
    scripted.broker("a:1", lambda key, request: metadata())
    brokers = scripted.brokers()
    first = brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x"))
    assert brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x")) is first
    first.is_hung_up = True  # type: ignore[attr-defined]
    assert brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x")) is not first
    assert scripted.connected == ["a:1", "a:1"]
    assert first.is_closed  # type: ignore[attr-defined]


def test_an_endpoint_from_another_response_is_known(scripted: Any) -> None:
    brokers = scripted.brokers()
    brokers.add_endpoint(BrokerEndpoint(9, "i", 9))
    assert brokers.endpoint(9) == BrokerEndpoint(9, "i", 9)


def test_closing_closes_every_connection(scripted: Any) -> None:
    scripted.broker("a:1", lambda key, request: metadata())
    brokers = scripted.brokers()
    connection = brokers.connection(BrokerEndpoint(1, "a", 1), brokers.deadline("x"))
    brokers.close()
    assert connection.is_closed


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
