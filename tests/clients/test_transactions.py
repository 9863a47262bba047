"""Transactions of real producers, on both brokers: what commits is read, what aborts is not, and offsets go with the output."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import ToolMissing
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until
from tests.support.processes import JavaProgram, compile_java

LOG = {"log_level": 0}


@pytest.fixture
def address(kafka_broker: Any) -> str:
    servers: str = kafka_broker.bootstrap_servers
    return servers


@pytest.fixture
def new_producer(address: str) -> Callable[..., Any]:
    """`new_producer(transactional_id)` has its epoch already."""
    from confluent_kafka import Producer

    def make(name: str, **settings: Any) -> Any:
        producer = Producer({"bootstrap.servers": address, "transactional.id": name, **LOG, **settings})
        producer.init_transactions(60)
        return producer

    return make


def committed_values(address: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    """The values of a topic of one partition, as a read_committed consumer sees them."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed", **LOG, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def poll() -> None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())

    wait_until(lambda: len(values) >= count, lambda: f"{count} values, {values} are there", poll)
    poll()
    consumer.close()
    return values


def send(producer: Any, topic: str, *values: bytes) -> None:
    for value in values:
        producer.produce(topic, value, partition=0)


@pytest.mark.conformance("TransactionsTest.testBasicTransactions")
def test_confluent_kafka(address: str, new_topic: Callable[..., str], new_producer: Callable[..., Any]) -> None:
    topic = new_topic(1)
    producer = new_producer(topic)
    for value, ends in ((b"a", producer.commit_transaction), (b"b", producer.abort_transaction), (b"c", producer.commit_transaction)):
        producer.begin_transaction()
        send(producer, topic, value, value)
        assert producer.flush(60) == 0
        ends(60)
    assert committed_values(address, topic, 4) == [b"a", b"a", b"c", b"c"]


def test_kafka_python(address: str, new_topic: Callable[..., str]) -> None:
    from kafka import KafkaProducer

    topic = new_topic(1)
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=topic)
    producer.init_transactions()
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(timeout=60)
        producer.commit_transaction() if commits else producer.abort_transaction()
    producer.close()
    assert committed_values(address, topic, 2) == [b"a", b"c"]


def test_aiokafka(address: str, new_topic: Callable[..., str], unique_name: Callable[[str], str]) -> None:
    from aiokafka import AIOKafkaProducer, TopicPartition

    topic, group = new_topic(1), unique_name("group")

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=topic)
        await producer.start()
        for value in (b"a", b"b"):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value, partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, group)
            await (producer.commit_transaction() if value == b"a" else producer.abort_transaction())
        await producer.stop()

    asyncio.run(run())
    assert committed_values(address, topic, 1) == [b"a"]


@pytest.mark.conformance("TransactionsTest.testSendOffsetsWithGroupMetadata")
def test_offsets_are_committed_with_the_output(
    address: str, new_topic: Callable[..., str], unique_name: Callable[[str], str], new_producer: Callable[..., Any]
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    source, target, group = new_topic(1), new_topic(1), unique_name("group")
    feeder = new_producer(source)
    feeder.begin_transaction()
    send(feeder, source, b"1", b"2", b"3")
    feeder.commit_transaction(60)
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **LOG}
    )
    consumer.subscribe([source])
    read: list[Any] = []

    def poll() -> None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            read.append(message)

    wait_until(lambda: len(read) == 3, "three records", poll)
    producer = new_producer(target)
    looking = Consumer({"bootstrap.servers": address, "group.id": group, "isolation.level": "read_uncommitted", **LOG})

    def copy(ends: Callable[[float], None]) -> None:
        producer.begin_transaction()
        send(producer, target, *[message.value() for message in read])
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60)
        # Who asks for what is stable waits for the transaction's end; who does not gets what was committed before.
        assert looking.committed([TopicPartition(source, 0)], 60)[0].offset < 0
        ends(60)

    copy(producer.abort_transaction)
    copy(producer.commit_transaction)
    assert consumer.committed([TopicPartition(source, 0)], 60)[0].offset == 3
    consumer.close()
    looking.close()
    assert committed_values(address, target, 3) == [b"1", b"2", b"3"]


@pytest.mark.conformance("TransactionsTest.testFencingOnCommit")
def test_a_second_producer_fences_the_first(address: str, new_topic: Callable[..., str], new_producer: Callable[..., Any]) -> None:
    from confluent_kafka import KafkaError, KafkaException

    topic = new_topic(1)
    first = new_producer(topic)
    first.begin_transaction()
    send(first, topic, b"lost")
    assert first.flush(60) == 0
    second = new_producer(topic)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(60)
    assert raised.value.args[0].code() == KafkaError._FENCED
    second.begin_transaction()
    send(second, topic, b"kept")
    second.commit_transaction(60)
    assert committed_values(address, topic, 1) == [b"kept"]


@pytest.mark.conformance(
    "TransactionsTest.testFencingOnTransactionExpiration",
    "TransactionsTest.testReadCommittedConsumerShouldNotSeeUndecidedData",
)
def test_a_transaction_that_takes_too_long_is_aborted(
    address: str, new_topic: Callable[..., str], new_producer: Callable[..., Any]
) -> None:
    topic = new_topic(1)
    producer = new_producer(topic, **{"transaction.timeout.ms": 1000})
    producer.begin_transaction()
    send(producer, topic, b"late")
    assert producer.flush(60) == 0
    other = new_producer(f"{topic}-other")
    other.begin_transaction()
    send(other, topic, b"behind it")
    other.commit_transaction(60)
    assert committed_values(address, topic, 1) == [b"behind it"]
    with RawClient(address) as client:
        state = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[topic]).transaction_states[0]
        assert (state.transaction_state, state.producer_epoch) == ("CompleteAbort", 1)


@pytest.fixture(scope="module")
def class_path(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Java program, compiled; skipped where Maven or a JDK is missing."""
    jars = reference.class_path()
    source = Path(__file__).parent.parent / "java" / "Transactions.java"
    try:
        return compile_java(source, jars, tmp_path_factory.mktemp("java"))
    except ToolMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.conformance("TransactionsTest.testBumpTransactionalEpochWithTV2Enabled")
def test_java_whose_epoch_rises_with_each_transaction(address: str, new_topic: Callable[..., str], class_path: str, tmp_path: Path) -> None:
    topic = new_topic(1)
    with JavaProgram("Transactions", class_path, error_path=tmp_path / "errors", arguments=(address, topic, topic)) as program:
        program.wait_for(lambda events: [each for each in events if each["event"] == "done"], "the transactions", seconds=120)
    assert committed_values(address, topic, 9) == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
    with RawClient(address) as client:
        state = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[topic]).transaction_states[0]
        assert (state.transaction_state, state.producer_epoch) == ("CompleteAbort", 6)
