"""The engine in an event loop: waiting, starting, leaving, and errors."""

import asyncio
from typing import Any

import pytest

from ottla.client.async_consumer.arguments import parse_arguments
from ottla.client.async_consumer.errors import (
    AuthenticationFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    IncompatibleBrokerVersion,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
    KafkaError,
)
from ottla.client.async_consumer.shell import Shell
from ottla.client.errors import AuthenticationError, UnsupportedBrokerError
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition


def with_shell(test: Any, **arguments: Any) -> None:
    async def run() -> None:
        given = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g"} | arguments
        shell = Shell(parse_arguments(given), asyncio.get_running_loop())
        try:
            await asyncio.wait_for(test(shell), 20)
        finally:
            shell.driver.stop()

    asyncio.run(run())


def test_start_fails_when_no_broker_is_reached() -> None:
    async def test(shell: Shell) -> None:
        with pytest.raises(KafkaConnectionError, match=r"Unable to bootstrap from 127\.0\.0\.1:1,127\.0\.0\.1:2: no connection to broker"):
            await shell.start()

    with_shell(test, bootstrap_servers=["127.0.0.1:1", "127.0.0.1:2"])


def test_start_fails_when_the_group_refuses(broker: Any, new_topic: Any) -> None:
    async def test(shell: Shell) -> None:
        shell.engine.subscribe([new_topic()], [])
        with pytest.raises(InvalidSessionTimeoutError):
            await shell.start()

    arguments = {"session_timeout_ms": 100, "heartbeat_interval_ms": 30, "max_poll_interval_ms": 1_000}
    with_shell(test, bootstrap_servers=broker.bootstrap_servers, **arguments)


def test_waits_end_in_time_or_with_a_change() -> None:
    async def test(shell: Shell) -> None:
        await shell.wait(1)
        assert not await shell.wait_until(lambda: False, 5)
        waiting = asyncio.create_task(shell.wait(60_000))
        await asyncio.sleep(0)
        shell.driver._on_change()
        await asyncio.wait_for(waiting, 60)
        waiting = asyncio.create_task(shell.wait_until(lambda: False, 60_000))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await shell.stop("test")
        with pytest.raises(ConsumerStoppedError):
            await waiting

    with_shell(test)


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (AuthenticationError("no"), AuthenticationFailedError),
        (UnsupportedBrokerError("old"), IncompatibleBrokerVersion),
        (PeerError("nonsense"), KafkaError),
    ],
)
def test_refusals_are_raised_once(refusal: Exception, raised: type[Exception]) -> None:
    async def test(shell: Shell) -> None:
        shell.driver.refusal = refusal
        with pytest.raises(raised):
            shell.poll()
        shell.poll()

    with_shell(test)


def test_errors_of_the_group_and_of_our_own() -> None:
    async def test(shell: Shell) -> None:
        shell.engine.membership.failure = ErrorCode.FENCED_INSTANCE_ID
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            shell.poll()
        shell.engine.membership.failure = PeerError("malformed")
        with pytest.raises(KafkaError, match="malformed"):
            shell.poll()
        shell.driver.failure = ZeroDivisionError()
        with pytest.raises(KafkaError, match=r"has ended: ZeroDivisionError"):
            shell.poll()

    with_shell(test)


def test_partitions_that_are_not_assigned() -> None:
    async def test(shell: Shell) -> None:
        with pytest.raises(IllegalStateError, match="is not assigned"):
            shell.state(TopicPartition("t", 0))

    with_shell(test)


def test_what_comes_after_leaving_waits_for_it() -> None:
    async def test(shell: Shell) -> None:
        calls: list[str] = []
        shell.after_leaving(lambda: calls.append("at once"))
        shell.leave("test")
        shell.after_leaving(lambda: calls.append("later"))
        assert calls == ["at once"]
        while len(calls) < 2:
            await shell.wait(10)

    with_shell(test)
