"""Tests of the ledger: what was written and acknowledged, and what the group has not committed."""

from confluent_kafka import Consumer, TopicPartition

from ottla.broker import Broker
from ottla.testing.chaos.ledger import Ledger
from ottla.testing.clients.topics import create_topic
from ottla.testing.kit.waiting import wait_until


def test_what_was_written_is_known_and_what_is_not_committed_is_behind() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t", 2)
        ledger = Ledger(broker.bootstrap_servers, "t", 2)
        with ledger.growing():
            wait_until(lambda: {partition for partition, _ in ledger.produced} == {0, 1}, "records in both partitions")
        ends = {number: 1 + max(offset for partition, offset in ledger.produced if partition == number) for number in (0, 1)}
        assert set(ledger.produced) == {(number, offset) for number, end in ends.items() for offset in range(end)}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("t", 0, ends[0])], asynchronous=False)
        consumer.close()
        assert ledger.behind("g") == {1: (-1001, ends[1])}
