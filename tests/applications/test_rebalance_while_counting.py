"""Clicks are counted in memory; a rebalance in the middle neither loses counts nor counts twice."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from threading import Event

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing import Broker, BrokerFactory, wait_until
from tests.support.processes import free_ports
from trials.lying_broker.proxy import Answer, LyingBroker


class ClickCounter:
    """Adds clicks up, and writes the sums to `counts` when it is idle and before it gives up partitions."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        servers = {"bootstrap.servers": bootstrap_servers, "client.id": name}
        self.producer = Producer(servers)
        by_hand = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer({**servers, **by_hand, "group.id": "clicks", "heartbeat.interval.ms": 100})
        self.sums: Counter[bytes] = Counter()

    def run(self, stopping: Event) -> None:
        self.consumer.subscribe(["clicks"], on_assign=self.begin_behind_commits, on_revoke=self.write_sums)
        while not stopping.is_set():
            # One by one: confluent-kafka's consume() may revoke partitions while it holds messages of them, and return these afterwards.
            message = self.consumer.poll(0.05)
            if message is None:
                self.write_sums(self.consumer, [])
            elif message.error():
                raise KafkaException(message.error())
            else:
                self.sums[message.value()] += 1
        self.consumer.close()
        self.producer.close()  # the callback makes a cycle of this object: the producer would look for a stopped broker meanwhile

    def begin_behind_commits(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Assign with offsets. While librdkafka looks them up by itself, it may hand out what it fetched before another member had them."""
        begins = consumer.committed(partitions, 10)
        for each in begins:
            each.offset = each.offset if each.offset >= 0 else OFFSET_BEGINNING
        consumer.assign(begins)

    def write_sums(self, consumer: Consumer, _revoked: list[TopicPartition]) -> None:
        if self.sums:
            for page, clicks in self.sums.items():
                self.producer.produce("counts", str(clicks), page)
            self.producer.flush()
            consumer.commit(asynchronous=False)
            self.sums.clear()


CLICKS = [(f"user-{number}", "home" if number % 3 else "cart") for number in range(300)]


def counted(broker: Broker) -> Counter[bytes]:
    counts: Counter[bytes] = Counter()
    for record in broker.consume("counts", len(broker.values("counts"))):
        counts[record.key] += int(record.value)
    return counts


def test_a_second_counter_takes_over_without_a_lost_click(
    ottla_broker: Broker, running: Callable[..., AbstractContextManager[None]]
) -> None:
    start = partial(ClickCounter, ottla_broker.bootstrap_servers)
    ottla_broker.create_topic("clicks", 4)
    group = ottla_broker.group("clicks")
    with running(start("one").run):
        ottla_broker.produce("clicks", CLICKS)
        group.wait(state="Stable", members=1)
        with group.expect(rebalances=2, unplanned=0), running(start("two").run):  # one when it comes, one when it goes
            ottla_broker.produce("clicks", CLICKS)
            group.wait(state="Stable", members=2, lag=0)
            assert {name: len(partitions) for name, partitions in group.assignment().items()} == {"one": 2, "two": 2}
    assert counted(ottla_broker) == {b"home": 400, b"cart": 200}


def test_clicks_that_another_counter_has_written_are_not_counted_again(
    ottla_broker_factory: BrokerFactory, running: Callable[..., AbstractContextManager[None]]
) -> None:
    """librdkafka 2.16 fetches partitions that it has lost while ListOffsets was under way, and keeps the records until it has them again.

    A counter that leaves the offsets to it gets some of these records in one of six runs.
    """
    (port,) = free_ports(1)
    with closing(LyingBroker(port)) as slow:
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "advertised.listeners": f"PLAINTEXT://127.0.0.1:{slow.port}"}
        broker = ottla_broker_factory(listeners)
        may_answer, fetched = Event(), Counter[int]()

        def hold(answer: Answer) -> bytes:
            if answer.api is ApiKey.LIST_OFFSETS:
                may_answer.wait(10)
            else:
                fetched.update(part.partition_index for topic in answer.message.responses for part in topic.partitions if part.records)
            return answer.frame

        slow.lie, slow.lie_apis = hold, frozenset({ApiKey.LIST_OFFSETS, ApiKey.FETCH})
        broker.create_topic("clicks", 100)
        start = partial(ClickCounter, f"127.0.0.1:{slow.port}")
        group = broker.group("clicks")
        with running(start("one").run):
            wait_until(lambda: any(api is ApiKey.LIST_OFFSETS for _, api in slow.requests), "the first counter to look up its offsets")
            with running(start("two").run):
                group.wait(state="Stable", members=2)
                broker.produce("clicks", CLICKS)
                may_answer.set()
                group.wait(lag=0)
                wait_until(lambda: sum(fetched[of_two] > 1 for of_two in range(50, 100)) > 40, "the first counter to fetch them, too")
            group.wait(state="Stable", members=1, lag=0)
            broker.produce("clicks", CLICKS)
            group.wait(lag=0)
        assert counted(broker) == {b"home": 400, b"cart": 200}
