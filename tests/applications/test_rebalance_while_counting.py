"""Clicks are counted in memory; a rebalance in the middle neither loses counts nor counts twice."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.testing import Broker


class ClickCounter:
    """Adds clicks up, and writes the sums to `counts` when it is idle and before it gives up partitions."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        servers = {"bootstrap.servers": bootstrap_servers, "client.id": name}
        self.producer = Producer(servers)
        by_hand = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.auto.offset.store": False}
        self.consumer = Consumer({**servers, **by_hand, "group.id": "clicks", "heartbeat.interval.ms": 100})
        self.sums: Counter[bytes] = Counter()

    def run(self, stopping: Event) -> None:
        self.consumer.subscribe(["clicks"], on_revoke=self.write_sums)
        while not stopping.is_set():
            # One by one: confluent-kafka's consume() may revoke partitions while it holds messages of them, and return these afterwards.
            message = self.consumer.poll(0.05)
            if message is None:
                self.write_sums(self.consumer, [])
            elif message.error():
                raise KafkaException(message.error())
            elif self.is_own(message):
                self.sums[message.value()] += 1
        self.consumer.close()
        self.producer.close()  # the callback makes a cycle of this object: the producer would look for a stopped broker meanwhile

    def is_own(self, message: Message) -> bool:
        """Whether the message counts here: one of a partition that was given up meanwhile is read again by the next owner."""
        try:
            self.consumer.store_offsets(message)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError._STATE:
                raise
            return False
        return True

    def write_sums(self, consumer: Consumer, _revoked: list[TopicPartition]) -> None:
        if self.sums:
            for page, clicks in self.sums.items():
                self.producer.produce("counts", str(clicks), page)
            self.producer.flush()
            consumer.commit(asynchronous=False)
            self.sums.clear()


def test_a_second_counter_takes_over_without_a_lost_click(
    ottla_broker: Broker, running: Callable[..., AbstractContextManager[None]]
) -> None:
    start = partial(ClickCounter, ottla_broker.bootstrap_servers)
    ottla_broker.create_topic("clicks", 4)
    clicks = [(f"user-{number}", "home" if number % 3 else "cart") for number in range(300)]
    group = ottla_broker.group("clicks")
    with running(start("one").run):
        ottla_broker.produce("clicks", clicks)
        group.wait(state="Stable", members=1)
        with group.expect(rebalances=2, unplanned=0), running(start("two").run):  # one when it comes, one when it goes
            ottla_broker.produce("clicks", clicks)
            group.wait(state="Stable", members=2, lag=0)
            assert {name: len(partitions) for name, partitions in group.assignment().items()} == {"one": 2, "two": 2}
    counted: Counter[bytes] = Counter()
    for record in ottla_broker.consume("counts", len(ottla_broker.values("counts"))):
        counted[record.key] += int(record.value)
    assert counted == {b"home": 400, b"cart": 200}
