"""Features that are not built yet: each client has an error at once, though it would wait for a minute, and the broker's log names it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.cli.processes import ToolMissing
from tests.support.processes import JavaProgram, compile_java

TIME_LIMIT_S = 60
AT_ONCE_S = 10
SOURCE = Path(__file__).parent.parent / "java" / "Refusals.java"
TRANSACTIONS = "transactions (transactional.id), which are not supported yet"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def init_with_confluent(address: str) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": address, "client.id": "app", "transactional.id": "t", "log_level": 0}
    Producer(settings).init_transactions(TIME_LIMIT_S)


def init_with_kafka_python(address: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, client_id="app", transactional_id="t", max_block_ms=TIME_LIMIT_S * 1000)
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=0)


def init_with_aiokafka(address: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def init() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, client_id="app", transactional_id="t")
        try:
            await asyncio.wait_for(producer.start(), TIME_LIMIT_S)
        finally:
            await producer.stop()

    asyncio.run(init())


@pytest.mark.parametrize("init", [init_with_confluent, init_with_kafka_python, init_with_aiokafka])
def test_transactions_are_refused_at_once(broker: Broker, init: Callable[[str], None], caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)transactional.?id.?authorization.?failed"):
        init(broker.bootstrap_servers)
    assert time.monotonic() - began < AT_ONCE_S
    assert caplog.messages.count(f"client app of /127.0.0.1 asks for {TRANSACTIONS}") == 1


def test_librdkafkas_error_says_what_is_missing_and_is_fatal(broker: Broker) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as raised:
        init_with_confluent(broker.bootstrap_servers)
    error = raised.value.args[0]
    assert error.fatal()
    assert "Ottla does not support transactions yet." in error.str()


def test_librdkafkas_consumer_protocol_is_refused_at_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    from confluent_kafka import Consumer, KafkaError

    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "app", "group.id": "g", "group.protocol": "consumer"}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.subscribe(["t"])
    began = time.monotonic()
    message = consumer.poll(TIME_LIMIT_S)
    assert time.monotonic() - began < AT_ONCE_S
    assert message is not None
    assert message.error().code() == KafkaError._FATAL
    assert "API version not supported" in message.error().str()
    consumer.close()
    assert len([line for line in caplog.messages if "client app of /127.0.0.1 asks for the consumer group protocol" in line]) == 1


@pytest.fixture(scope="module")
def class_path(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Java program, compiled; skipped where Maven or a JDK is missing."""
    jars = reference.class_path()
    try:
        return compile_java(SOURCE, jars, tmp_path_factory.mktemp("java"))
    except ToolMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("feature", "error"),
    [
        ("transactions", "TransactionalIdAuthorizationException"),
        ("consumer", "UnsupportedVersionException"),
    ],
)
def test_the_java_client_raises_at_once(broker: Broker, class_path: str, tmp_path: Path, feature: str, error: str) -> None:
    arguments = (broker.bootstrap_servers, feature)
    with JavaProgram("Refusals", class_path, error_path=tmp_path / "errors", arguments=arguments) as program:
        raised = program.wait_for(
            lambda events: [each for each in events if each["event"] == "raised"], "an exception", seconds=2 * TIME_LIMIT_S
        )
    assert error in raised[0]["error"]
    assert raised[0]["seconds"] < AT_ONCE_S
