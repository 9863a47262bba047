"""kill -9 of the broker: what was acknowledged is there afterwards, and a group goes on where it was."""

from collections.abc import Callable
from typing import Any

from ottla.testing.waiting import wait_until

PARTITIONS = 3


def committed(member: Any, topic: str) -> list[Any]:
    """The committed offsets, nothing while the coordinator is not there again (librdkafka reports the error instead of retrying)."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    try:
        return list(member.consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=60))
    except KafkaException as not_yet:
        if not_yet.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TRANSPORT):
            raise
        return []


def test_a_group_survives_a_killed_broker_with_its_offsets_and_metadata(
    killable_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    from confluent_kafka import TopicPartition

    broker, topic = killable_broker, unique_name("flights")
    library, group = library_on(broker), unique_name("pilots")
    library.create_topic(topic, PARTITIONS)
    library.produce(topic, [(number % PARTITIONS, b"%d" % number) for number in range(300)])
    member = library.member(group, topic, "range", session_ms=45_000)
    received: list[Any] = []
    wait_until(lambda: len(received) == 300, "every record", lambda: received.extend(member.poll()))
    notes = {0: "gate A1", 1: "", 2: "übergeben 🛫"}
    member.consumer.commit(
        offsets=[TopicPartition(topic, number, 100 - number, note) for number, note in notes.items()], asynchronous=False
    )

    broker.kill()
    broker.start()

    library.produce(topic, [(0, b"after")])
    kept: list[TopicPartition] = []
    wait_until(lambda: kept, "the coordinator has loaded the group", lambda: kept.extend(committed(member, topic)))
    assert [(each.partition, each.offset, each.metadata or "") for each in kept] == [(0, 100, "gate A1"), (1, 99, ""), (2, 98, notes[2])]
    received.clear()
    wait_until(lambda: received, "the member, still in its group, reads on", lambda: received.extend(member.poll()))
    assert received == [(0, 100, b"after")]
    member.close()

    elsewhere = library.member(group, topic, "range")
    received.clear()
    wait_until(lambda: len(received) >= 4, "a member elsewhere", lambda: received.extend(elsewhere.poll()))
    assert sorted(received) == [(0, 100, b"after"), (1, 99, b"298"), (2, 98, b"296"), (2, 99, b"299")]
    elsewhere.close()


def test_acknowledged_records_survive_a_killed_broker(
    killable_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    broker, topic = killable_broker, unique_name("flights")
    library_on(broker).create_topic(topic, 1)
    acknowledged: list[int] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, "reconnect.backoff.max.ms": 200}
    )
    for number in range(2000):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, message: acknowledged.append(message.offset()))
        if number == 1000:
            wait_until(lambda: len(acknowledged) > 500, "acknowledgements", lambda: producer.poll(0.01))
    broker.kill()
    broker.start()
    assert producer.flush(60) == 0, "the producer goes on where it was"

    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": unique_name("readers"), "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[int] = []
    wait_until(
        lambda: len(values) >= 2000,
        "every record",
        lambda: values.extend(int(message.value()) for message in consumer.consume(500, 0.1) if message.error() is None),
    )
    consumer.close()
    assert values == list(range(2000)), "in order, nothing lost, nothing twice"
    assert sorted(acknowledged) == values
