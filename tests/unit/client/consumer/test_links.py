"""Connections of a consumer: opened in the background, with back-off, and requests that are lost with them."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.consumer.links import Links, Outcome
from ottla.client.engine.values import Endpoint, Metadata, Route, Send
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.membership.values import Heartbeat
from ottla.client.network.connection import BrokerConnection
from ottla.client.settings import ClientSettings

HEARTBEAT = Heartbeat(group_id="g", generation=1, member_id="m", instance_id=None)
SEND = Send(Metadata(None), Route.ANY, -1, 1_000)


class Driven:
    """Links whose clock is set by hand, and whose connections come when `connect` returns."""

    def __init__(self, connect: Callable[..., Any], bootstrap: str = "a") -> None:
        self.now = 0.0
        self.woken = threading.Semaphore(0)
        self.links = Links(
            ClientSettings(bootstrap_servers="a:1"),
            [Address(host, 1) for host in bootstrap],
            connect=connect,
            wake=self.woken.release,
            now_ms=lambda: self.now,
            rng=lambda: 0.5,
        )

    def opened(self) -> list[Outcome]:
        """The outcomes when one attempt to connect is over."""
        assert self.woken.acquire(timeout=60)
        return self.links.step(set())


@pytest.mark.conformance("FetcherTest.testFetchSkipsBlackedOutNodes")
def test_a_connection_that_is_not_opened_fails_its_requests_and_is_tried_again_later() -> None:
    attempts: list[Address] = []

    def refuse(address: Address, settings: Any, timeout_ms: int) -> Any:
        attempts.append(address)
        raise BrokerUnavailableError("gone")

    driven = Driven(refuse)
    assert driven.links.send(SEND, {}) == []
    ((send, _, error),) = driven.opened()
    assert send is SEND
    assert isinstance(error, BrokerUnavailableError)
    driven.links.send(SEND, {})
    assert len(attempts) == 1, "there is a back-off"
    assert driven.links.next_ms() == 50
    driven.now = 50
    driven.links.step(set())
    driven.opened()
    assert len(attempts) == 2
    driven.links.close()


def test_another_broker_is_tried_when_one_cannot_be_reached() -> None:
    attempts: list[str] = []

    def refuse(address: Address, settings: Any, timeout_ms: int) -> Any:
        attempts.append(address.host)
        raise AuthenticationError("no")

    driven = Driven(refuse, "ab")
    for _ in range(3):
        driven.links.send(SEND, {})
        driven.opened()
        driven.now += 1_000
    assert attempts == ["a", "b", "a"]
    driven.links.close()


def test_a_broker_without_an_address_fails_at_once() -> None:
    driven = Driven(lambda *_: pytest.fail("there is nowhere to connect to"))
    send = Send(HEARTBEAT, Route.COORDINATOR, 7, 1_000)
    ((found, _, error),) = driven.links.send(send, {})
    assert found is send
    assert "broker 7 is not there" in str(error)


def test_a_request_that_is_not_answered_in_time_closes_the_connection(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, number: b"")
    driven = Driven(lambda address, settings, timeout_ms: BrokerConnection(*address, client_id="c", timeout_ms=timeout_ms))
    send = Send(Metadata(None), Route.BROKER, 1, 1_000)
    driven.links.send(send, {1: Endpoint("127.0.0.1", broker.port)})
    assert driven.opened() == []
    assert [connection.wants_write for connection in driven.links.connections()] == [False]
    assert driven.links.next_ms() == 1_000
    driven.now = 1_000
    ((found, _, error),) = driven.links.step(set())
    assert found is send
    assert "in time" in str(error)
    assert driven.links.connections() == []
    driven.links.close()


def test_a_connection_that_was_idle_for_too_long_is_opened_anew(canned_broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, attempts = canned_broker(lambda key, number: b""), []

    def connect(address: Address, settings: Any, timeout_ms: int) -> BrokerConnection:
        attempts.append(address)
        return BrokerConnection(*address, client_id="c", timeout_ms=timeout_ms)

    driven = Driven(connect)
    endpoints = {1: Endpoint("127.0.0.1", broker.port)}
    send = Send(Metadata(None), Route.BROKER, 1, 1_000)
    driven.links.send(send, endpoints)
    driven.opened()
    driven.links.send(send, endpoints)
    assert len(attempts) == 1
    monkeypatch.setattr(BrokerConnection, "is_stale", lambda self, idle_ms_max: idle_ms_max == 540_000)
    lost = driven.links.send(send, endpoints)
    assert [str(outcome.error) for outcome in lost] == ["the connection was idle"] * 2
    driven.opened()
    assert len(attempts) == 2
    driven.links.close()


def test_a_request_in_an_unknown_version_fails(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, number: b"")
    driven = Driven(lambda address, settings, timeout_ms: BrokerConnection(*address, client_id="c", timeout_ms=timeout_ms))
    driven.links.send(Send(HEARTBEAT, Route.COORDINATOR, 1, 1_000), {1: Endpoint("127.0.0.1", broker.port)})
    ((_, _, error),) = driven.opened()
    assert "API 12" in str(error)
    driven.links.close()


def test_a_broker_that_moved_gets_a_new_connection() -> None:
    gate, addresses = threading.Event(), []

    def wait(address: Address, settings: Any, timeout_ms: int) -> Any:
        addresses.append(address.port)
        gate.wait(60)
        raise BrokerUnavailableError("closed")

    driven = Driven(wait)
    first, second = (Send(Metadata(None), Route.BROKER, 1, 1_000) for _ in range(2))
    driven.links.send(first, {1: Endpoint("h", 1)})
    ((lost, _, _),) = driven.links.send(second, {1: Endpoint("h", 2)})
    assert lost is first
    gate.set()
    outcomes = driven.opened() + driven.opened()
    assert [outcome.send for outcome in outcomes] == [second]
    assert sorted(addresses) == [1, 2]
    driven.links.close()


def test_a_connection_that_is_opened_after_the_end_is_closed(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, number: b"")
    gate, made = threading.Event(), []

    def late(address: Address, settings: Any, timeout_ms: int) -> BrokerConnection:
        gate.wait(60)
        made.append(BrokerConnection("127.0.0.1", broker.port, client_id="c", timeout_ms=timeout_ms))
        return made[0]

    driven = Driven(late)
    driven.links.send(SEND, {})
    driven.links.close()
    gate.set()
    assert driven.woken.acquire(timeout=60)
    assert made[0].fileno() == -1


def test_what_tls_has_read_already_is_not_waited_for(canned_broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = canned_broker(lambda key, number: b"")
    driven = Driven(lambda address, settings, timeout_ms: BrokerConnection(*address, client_id="c", timeout_ms=timeout_ms))
    driven.links.send(Send(Metadata(None), Route.BROKER, 1, 1_000), {1: Endpoint("127.0.0.1", broker.port)})
    driven.opened()
    assert driven.links.next_ms() == 1_000
    monkeypatch.setattr(BrokerConnection, "has_pending", True)
    assert driven.links.next_ms() == 0
    driven.links.close()


def test_new_credentials_are_used_for_the_next_connection() -> None:
    users: list[str] = []

    def refuse(address: Address, settings: ClientSettings, timeout_ms: int) -> Any:
        users.append(settings.security.username)
        raise AuthenticationError("no")

    driven = Driven(refuse)
    driven.links.send(SEND, {})
    driven.opened()
    driven.links.set_credentials("user", "password")
    driven.now = 1_000
    driven.links.send(SEND, {})
    driven.opened()
    assert users == ["", "user"]
    driven.links.close()
