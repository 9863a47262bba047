"""The background thread of a consumer: it runs, reports what ends it, and stops."""

import threading
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.consumer.driver import Driver
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.engine import Engine
from ottla.client.engine.values import ConsumerSettings
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.membership.values import GroupSettings
from ottla.client.settings import ClientSettings
from ottla.groups.assignors import assignors


def driver(connect: Any) -> Driver:
    settings = ConsumerSettings(group=GroupSettings(group_id="g"))
    engine = Engine(settings, [assignors()["range"]], decode_plain, now_ms=0, rng=lambda: 0.5, time_of_day_ms=lambda: 0)
    return Driver(engine, ClientSettings(bootstrap_servers="a:1"), connect=connect, rng=lambda: 0.5)


def refuse(error: Exception) -> Any:
    def connect(address: Address, settings: Any, timeout_ms: int) -> Any:
        raise error

    return connect


def waits_for(made: Driver, condition: Any) -> None:
    with made.condition:
        assert made.condition.wait_for(condition, timeout=60)


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testAuthenticationErrorInEnsureCoordinatorReady",
    "ConsumerCoordinatorTest.testAuthenticationFailureInEnsureActiveGroup",
)
def test_brokers_that_refuse_and_that_cannot_be_reached_are_told_apart() -> None:
    for error, is_refusal in ((AuthenticationError("no"), True), (BrokerUnavailableError("gone"), False)):
        made = driver(refuse(error))
        made.start()
        with made.condition:
            made.engine.subscribe(["t"], [])
        made.wake()
        waits_for(made, lambda made=made: made.unreachable)
        made.stop()
        assert (made.refusal is error) == is_refusal
        assert made.failure is None


@pytest.mark.conformance("AbstractCoordinatorTest.testUncaughtExceptionInHeartbeatThread")
def test_an_error_of_our_own_ends_the_thread_and_is_kept() -> None:
    made = driver(refuse(BrokerUnavailableError("gone")))
    made.engine.next_sends = lambda now_ms: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    made.start()
    waits_for(made, lambda: made.failure is not None)
    assert isinstance(made.failure, ZeroDivisionError)
    made.stop()


@pytest.mark.conformance("ConsumerCoordinatorTest.testHeartbeatThreadClose")
def test_it_stops_at_once() -> None:
    before = set(threading.enumerate())
    made = driver(refuse(BrokerUnavailableError("gone")))
    made.start()
    made.stop()
    made.wake()
    assert set(threading.enumerate()) <= before


def test_waking_a_thread_that_is_busy_waits_for_nothing() -> None:
    made = driver(refuse(BrokerUnavailableError("gone")))
    waking = threading.Thread(target=lambda: [made.wake() for _ in range(2_000)], daemon=True)  # more than a socket takes
    waking.start()
    waking.join(20)
    assert not waking.is_alive()
    made.start()
    made.stop()


def test_the_application_is_notified_when_it_asks_for_it() -> None:
    made = driver(refuse(BrokerUnavailableError("gone")))
    made.start()
    looked = []
    with made.condition:
        made.notify()
        assert made.condition.wait(20)
        looked.append(True)
    made.stop()
    assert looked
