"""Prices are a table in a compacted topic: the last one of each article counts."""

from collections.abc import Callable
from time import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.testing import Broker, wait_until


class PriceTable:
    """Reads the topic `prices` from the beginning to its end; `set` and `remove` write to it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = {"bootstrap.servers": bootstrap_servers}
        self.producer = Producer(self.servers)
        self.prices: dict[str, int] = {}
        self.records_read = 0
        self._load()

    def _load(self) -> None:
        consumer = Consumer({**self.servers, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
        consumer.assign([TopicPartition("prices", 0, 0)])
        while True:
            (message,) = consumer.consume(1, timeout=30)
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                break
            self.records_read += 1
            if message.value() is None:
                self.prices.pop(message.key().decode(), None)
            else:
                self.prices[message.key().decode()] = int(message.value())
        consumer.close()

    def set(self, article: str, cents: int) -> None:
        self.producer.produce("prices", str(cents), article)
        self.producer.flush()

    def remove(self, article: str) -> None:
        self.producer.produce("prices", None, article)
        self.producer.flush()


def test_the_table_is_the_same_after_compaction(ottla_broker_factory: Callable[..., Broker]) -> None:
    broker = ottla_broker_factory({"log.cleaner.backoff.ms": 10})
    broker.create_topic("prices", 1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.ms": 60_000})
    table = PriceTable(broker.bootstrap_servers)
    for cents in range(100, 150):
        table.set("apple", cents)
        table.set("pear", 2 * cents)
    table.remove("pear")
    before = PriceTable(broker.bootstrap_servers)
    assert (before.prices, before.records_read) == ({"apple": 149}, 101)

    # Only full segments are compacted: a record that is later by more than segment.ms begins a new one.
    broker.produce("prices", [("plum", b"7")], timestamp_ms=round(1000 * time()) + 120_000)
    wait_until(lambda: len(broker.values("prices")) == 3, "the cleaner to leave three records")
    after = PriceTable(broker.bootstrap_servers)
    assert (after.prices, after.records_read) == ({"apple": 149, "plum": 7}, 3)
