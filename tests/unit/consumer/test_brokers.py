"""Connections, time and attempts of an administrator, without a socket and without waiting."""

from typing import Any

import pytest

from ottla.consumer.admin.values import Node
from ottla.consumer.errors import BrokerUnavailableError, RequestFailedError
from ottla.consumer.retrying import Deadline, OutOfTimeError, raise_for
from ottla.core.errors import ErrorCode

METADATA = 3


def metadata(*nodes: tuple[int, str, int]) -> dict[str, Any]:
    brokers = [{"node_id": number, "host": host, "port": port, "rack": None} for number, host, port in nodes]
    return {"brokers": brokers, "topics": [], "cluster_id": None, "controller_id": 1, "cluster_authorized_operations": 0}


def test_the_first_broker_that_is_there_is_asked_and_its_connection_kept(told: Any) -> None:
    told.broker("b:2", lambda key, request: metadata((1, "a", 1), (2, "b", 2)))
    brokers = told.brokers("a:1,b:2")
    for _ in range(2):
        assert brokers.nodes(brokers.deadline("x")) == {1: Node(1, "a", 1), 2: Node(2, "b", 2)}
    assert told.connected == ["b:2"]
    assert brokers.known(2) == Node(2, "b", 2)
    with pytest.raises(RequestFailedError, match="broker 7 is not there"):
        brokers.known(7)


def test_brokers_that_metadata_named_help_when_the_first_one_is_gone(told: Any) -> None:
    told.broker("a:1", lambda key, request: metadata((2, "b", 2))).broker("b:2", lambda key, request: metadata((2, "b", 2)))
    brokers = told.brokers("a:1")
    brokers.nodes(brokers.deadline("x"))
    told.broker("a:1", lost)
    assert brokers.nodes(brokers.deadline("x")) == {2: Node(2, "b", 2)}
    assert told.asked == [("a:1", METADATA), ("a:1", METADATA), ("b:2", METADATA)]


def lost(key: int, request: Any) -> Any:
    raise BrokerUnavailableError("lost")


def test_an_interrupted_question_leaves_no_connection_with_its_answer(told: Any) -> None:
    def interrupt(key: int, request: Any) -> Any:
        raise KeyboardInterrupt

    told.broker("a:1", interrupt)
    brokers = told.brokers()
    with pytest.raises(KeyboardInterrupt):
        brokers.nodes(brokers.deadline("x"))
    told.broker("a:1", lambda key, request: metadata((1, "a", 1)))
    assert brokers.nodes(brokers.deadline("x")) == {1: Node(1, "a", 1)}
    assert told.connected == ["a:1", "a:1"]


def test_what_may_pass_is_tried_again_until_the_time_is_over(told: Any) -> None:
    brokers = told.brokers(timeout_ms=750)
    attempts = []

    def attempt(deadline: Deadline) -> int:
        attempts.append(deadline.left_ms())
        raise_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "partition 0")
        return 1

    with pytest.raises(
        OutOfTimeError, match=r"Timed out after 4 attempt\(s\), the last: partition 0: NOT_LEADER_OR_FOLLOWER\. Call: lists"
    ):
        brokers.persist("lists", attempt)
    assert (len(attempts), told.waits) == (4, [0.1, 0.2, 0.4])


def test_a_refusal_is_not_tried_again(told: Any) -> None:
    brokers = told.brokers()

    def attempt(deadline: Deadline) -> int:
        raise_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t")
        return 1

    with pytest.raises(RequestFailedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        brokers.persist("lists", attempt)
    assert told.waits == []


def test_nobody_there(told: Any) -> None:
    brokers = told.brokers(timeout_ms=350)
    with pytest.raises(OutOfTimeError) as raised:
        brokers.persist("lists", brokers.nodes)
    assert str(raised.value) == "Timed out waiting for a node assignment. Call: lists (no connection to broker a:1)"
    assert len(told.waits) == 2


def test_a_result_after_a_failure(told: Any) -> None:
    results = iter([BrokerUnavailableError("gone"), RequestFailedError("x", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 5])

    def attempt(deadline: Deadline) -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert told.brokers().persist("lists", attempt) == 5


def test_addresses_that_are_none(told: Any) -> None:
    with pytest.raises(ValueError, match="'x' is no host:port"):
        told.brokers("x")


def test_a_connection_that_the_broker_ended_is_made_anew(told: Any) -> None:
    told.broker("a:1", lambda key, request: metadata())
    brokers = told.brokers()
    first = brokers.node(Node(1, "a", 1), brokers.deadline("x"))
    assert brokers.node(Node(1, "a", 1), brokers.deadline("x")) is first
    first.is_hung_up = True  # type: ignore[attr-defined]
    assert brokers.node(Node(1, "a", 1), brokers.deadline("x")) is not first
    assert told.connected == ["a:1", "a:1"]
    assert first.is_closed  # type: ignore[attr-defined]


def test_a_broker_that_an_answer_named_is_known(told: Any) -> None:
    brokers = told.brokers()
    brokers.learn(Node(9, "i", 9))
    assert brokers.known(9) == Node(9, "i", 9)


def test_closing_closes_every_connection(told: Any) -> None:
    told.broker("a:1", lambda key, request: metadata())
    brokers = told.brokers()
    connection = brokers.node(Node(1, "a", 1), brokers.deadline("x"))
    brokers.close()
    assert connection.is_closed
