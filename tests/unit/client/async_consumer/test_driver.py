"""The driver in an event loop: it runs, reports what ends it, warns of a loop that was blocked, and leaves nothing behind."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.async_consumer.driver import AsyncDriver
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.engine import Engine
from ottla.client.engine.values import ConsumerSettings
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.membership.values import GroupSettings
from ottla.client.network.connection import BrokerConnection
from ottla.client.settings import ClientSettings
from ottla.groups.assignors import assignors
from ottla.protocol.wire.api_keys import ApiKey


def refuse(error: Exception) -> Any:
    def connect(address: Address, settings: Any, timeout_ms: int) -> Any:
        raise error

    return connect


def drive(connect: Any, test: Callable[[AsyncDriver, asyncio.Event], Awaitable[None]], **group: Any) -> None:
    """Run `test` with a driver that has something to send, and the event of its changes."""

    async def run() -> None:
        changed = asyncio.Event()
        settings = ConsumerSettings(group=GroupSettings(group_id="", **group))
        engine = Engine(settings, [assignors()["range"]], decode_plain, now_ms=0, rng=lambda: 0.5, time_of_day_ms=lambda: 0)
        driver = AsyncDriver(
            engine,
            ClientSettings(bootstrap_servers="a:1"),
            loop=asyncio.get_running_loop(),
            connect=connect,
            rng=lambda: 0.5,
            on_change=changed.set,
        )
        engine.subscribe(["t"], [])
        driver.start()
        try:
            await asyncio.wait_for(test(driver, changed), 60)
        finally:
            driver.stop()

    asyncio.run(run())


@pytest.mark.parametrize(("error", "is_refusal"), [(AuthenticationError("no"), True), (BrokerUnavailableError("gone"), False)])
def test_brokers_that_refuse_and_that_cannot_be_reached_are_told_apart(error: Exception, is_refusal: bool) -> None:
    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        await changed.wait()
        assert driver.unreachable == str(error)
        assert driver.unanswered > 0
        assert (driver.refusal is error) == is_refusal
        assert driver.failure is None

    drive(refuse(error), test)


def test_an_error_of_our_own_ends_it_and_is_kept() -> None:
    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        driver.engine.next_sends = lambda now_ms: 1 // 0  # type: ignore[method-assign, assignment, return-value]
        await changed.wait()
        assert isinstance(driver.failure, ZeroDivisionError)

    drive(refuse(BrokerUnavailableError("gone")), test)


def test_a_blocked_loop_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        with caplog.at_level(logging.WARNING, "ottla.consumer"):
            await asyncio.sleep(0.02)
            time.sleep(0.3)
            while not caplog.records:
                await asyncio.sleep(0.01)
        assert "event loop blocked: other code of the event loop did not let it run; run code that blocks in a thread" in caplog.text
        assert driver.metrics()["stall-loop-time-total"] >= 200

    drive(refuse(BrokerUnavailableError("gone")), test, heartbeat_interval_ms=100)


def test_sockets_are_waited_for_until_it_stops(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, number: b"")

    def connect(address: Address, settings: Any, timeout_ms: int) -> BrokerConnection:
        return BrokerConnection("127.0.0.1", broker.port, client_id="c", timeout_ms=timeout_ms)

    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        while not driver.links.connections():
            await asyncio.sleep(0.01)
        (connection,) = driver.links.connections()
        loop = asyncio.get_running_loop()
        fileno = connection.fileno()
        driver.stop()
        assert not loop.remove_reader(fileno), "there is no reader any more"
        assert connection.fileno() == -1
        driver.wake()
        driver.run()
        assert driver.links.connections() == []

    drive(connect, test)


def test_a_connection_that_the_broker_closes_is_no_longer_waited_for(canned_broker: Any) -> None:
    broker = canned_broker(lambda key, number: None)
    sockets: list[BrokerConnection] = []

    def connect(address: Address, settings: Any, timeout_ms: int) -> BrokerConnection:
        sockets.append(BrokerConnection("127.0.0.1", broker.port, client_id="c", timeout_ms=timeout_ms))
        return sockets[-1]

    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        while not driver.unreachable:
            await asyncio.sleep(0.01)
        assert "closed the connection" in driver.unreachable
        while len(sockets) < 2:  # it connects again, most often with the same number
            await asyncio.sleep(0.01)

    drive(connect, test)


def test_a_socket_is_waited_for_as_writable_while_something_waits_to_be_written(canned_broker: Any) -> None:
    gate = threading.Event()

    def answer(key: int, number: int) -> bytes:
        if key == ApiKey.FETCH:
            gate.wait(30)  # nothing is read meanwhile
        return b""

    broker = canned_broker(answer)

    def connect(address: Address, settings: Any, timeout_ms: int) -> BrokerConnection:
        return BrokerConnection("127.0.0.1", broker.port, client_id="c", timeout_ms=timeout_ms, send_buffer_bytes=100_000)

    async def test(driver: AsyncDriver, changed: asyncio.Event) -> None:
        while not driver.links.connections():
            await asyncio.sleep(0.01)
        (connection,) = driver.links.connections()
        connection.send(ApiKey.FETCH, 12, b"")
        connection.send(ApiKey.FETCH, 12, bytes(8_000_000))
        driver.run()
        must_wait = connection.wants_write
        gate.set()
        while connection.wants_write:
            await asyncio.sleep(0.01)
        assert must_wait
        assert not asyncio.get_running_loop().remove_writer(connection.fileno()), "a writable socket would call all the time"

    drive(connect, test)
