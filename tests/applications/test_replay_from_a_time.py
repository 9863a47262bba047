"""Measurements are read again from a time of day on."""

from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ottla.testing import Broker

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def measurements_since(bootstrap_servers: str, time: datetime) -> list[bytes]:
    """Everything in `measurements` that is not older than `time`."""
    settings = {"group.id": "replay", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})
    partitions = consumer.list_topics("measurements").topics["measurements"].partitions
    at_time = [TopicPartition("measurements", number, milliseconds(time)) for number in partitions]
    consumer.assign(consumer.offsets_for_times(at_time))
    found, at_end = [], 0
    while at_end < len(partitions):
        (message,) = consumer.consume(1, timeout=30)
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            at_end += 1
    consumer.close()
    return found


def test_only_measurements_from_that_time_on_are_read(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("measurements", 3, config={"retention.ms": -1})
    for hour in range(24):
        at = milliseconds(MIDNIGHT + timedelta(hours=hour))
        ottla_broker.produce("measurements", [(f"sensor-{hour % 5}", f"{hour:02}:00")], timestamp_ms=at)
    evening = measurements_since(ottla_broker.bootstrap_servers, MIDNIGHT + timedelta(hours=20, minutes=30))
    assert sorted(evening) == [b"21:00", b"22:00", b"23:00"]
    assert measurements_since(ottla_broker.bootstrap_servers, MIDNIGHT + timedelta(days=1)) == []
