"""A rolling migration under load, on Ottla and on Apache Kafka: classic members are replaced by members of the consumer protocol, and back.

librdkafka is of both protocols, kafka-python and aiokafka of the classic one alone. Every record is read, and its partition has one owner
at a time: a member reads on from what was committed when its partition was given up.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until

PARTITIONS = 6
Partition = int


class Owners:
    """Who has each partition, as the applications see it; a second owner is a failure."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: dict[Partition, str] = {}
        self.problems: list[str] = []
        self.read: dict[Partition, set[int]] = {partition: set() for partition in range(PARTITIONS)}

    def take(self, name: str, partitions: list[Partition]) -> None:
        with self.lock:
            for partition in partitions:
                other = self.owner.setdefault(partition, name)
                if other != name:
                    self.problems.append(f"{name} was given {partition}, which {other} has")

    def give_up(self, name: str, partitions: list[Partition]) -> None:
        with self.lock:
            for partition in partitions:
                if self.owner.get(partition) == name:
                    del self.owner[partition]

    def saw(self, partition: Partition, offset: int) -> None:
        with self.lock:
            self.read[partition].add(offset)


class Member(threading.Thread):
    """One process of a service: it reads, and commits, until it is told to end."""

    def __init__(self, name: str, owners: Owners, servers: str, group: str, topic: str) -> None:
        super().__init__(name=name, daemon=True)
        self.owners, self.servers, self.group_id, self.topic = owners, servers, group, topic
        self.is_ending = threading.Event()

    def end(self) -> None:
        self.is_ending.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} does not end"

    @property
    def partitions(self) -> int:
        with self.owners.lock:
            return sum(owner == self.name for owner in self.owners.owner.values())


class Librdkafka(Member):
    """`protocol`: classic or consumer."""

    protocol = "classic"

    def run(self) -> None:
        from confluent_kafka import Consumer

        settings = {
            "bootstrap.servers": self.servers,
            "group.id": self.group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": self.protocol,
            "log_level": 0,
        }
        if self.protocol == "classic":
            settings |= {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}
        consumer: Any = Consumer(settings)

        def assigned(_: Any, partitions: list[Any]) -> None:
            self.owners.take(self.name, [partition.partition for partition in partitions])

        def revoked(_: Any, partitions: list[Any]) -> None:
            self.owners.give_up(self.name, [partition.partition for partition in partitions])

        consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not self.is_ending.is_set():
            message = consumer.poll(0.05)
            if message is not None and not message.error():
                self.owners.saw(message.partition(), message.offset())
                consumer.commit(message, asynchronous=True)
        consumer.close()


class LibrdkafkaConsumer(Librdkafka):
    protocol = "consumer"


class KafkaPython(Member):
    def run(self) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                member.owners.take(member.name, [partition.partition for partition in assigned])

            def on_partitions_revoked(self, revoked: Any) -> None:
                member.owners.give_up(member.name, [partition.partition for partition in revoked])

        consumer: Any = KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        consumer.subscribe([self.topic], listener=Listener())
        while not self.is_ending.is_set():
            for partition, messages in consumer.poll(timeout_ms=50).items():
                for message in messages:
                    self.owners.saw(partition.partition, message.offset)
        with self.owners.lock:
            mine = [partition for partition, owner in self.owners.owner.items() if owner == self.name]
        self.owners.give_up(self.name, mine)
        consumer.close()


class Aiokafka(Member):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.owners.take(member.name, [partition.partition for partition in assigned])

            async def on_partitions_revoked(self, revoked: Any) -> None:
                member.owners.give_up(member.name, [partition.partition for partition in revoked])

        consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        while not self.is_ending.is_set():
            for partition, messages in (await consumer.getmany(timeout_ms=50)).items():
                for message in messages:
                    self.owners.saw(partition.partition, message.offset)
        with self.owners.lock:
            mine = [partition for partition, owner in self.owners.owner.items() if owner == self.name]
        self.owners.give_up(self.name, mine)
        await consumer.stop()


class Load(threading.Thread):
    """Produces to every partition until it is told to end; `counts` is what was acknowledged."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.servers, self.topic = servers, topic
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        self.is_ending = threading.Event()

    def run(self) -> None:
        from confluent_kafka import Producer

        producer: Any = Producer({"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 5})

        def acknowledged(error: Any, message: Any) -> None:
            assert error is None, error
            self.counts[message.partition()] = max(self.counts[message.partition()], message.offset() + 1)

        while not self.is_ending.wait(0.1):
            for partition in range(PARTITIONS):
                producer.produce(self.topic, b"x", partition=partition, on_delivery=acknowledged)
            producer.poll(0)
        producer.flush(30)


@pytest.fixture
def broker_with_short_heartbeats(new_broker: Any) -> Any:
    return new_broker(
        {
            "group.consumer.heartbeat.interval.ms": "300",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
        }
    )


def test_a_rolling_migration_there_and_back_loses_nothing(broker_with_short_heartbeats: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import AdminClient

    servers, topic, group = broker_with_short_heartbeats.bootstrap_servers, unique_name("topic"), unique_name("group")
    admin: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    create_topic(servers, topic, PARTITIONS)
    owners, load = Owners(), Load(servers, topic)
    members: list[Member] = []

    def start(kind: type[Member]) -> None:
        members.append(kind(f"{kind.__name__}-{len(members)}-{threading.active_count()}", owners, servers, group, topic))
        members[-1].start()
        wait_until(is_settled, f"{len(members)} members have partitions", lambda: None)

    def replace(at: int, kind: type[Member]) -> None:
        members.pop(at).end()
        start(kind)

    def is_settled() -> bool:
        return all(member.partitions for member in members) and len(owners.owner) == PARTITIONS

    def group_type() -> str:
        return str(admin.describe_consumer_groups([group])[group].result(60).type.name)

    load.start()
    for kind in (Librdkafka, KafkaPython, Aiokafka):
        start(kind)
    assert group_type() == "CLASSIC"
    replace(0, LibrdkafkaConsumer)
    assert group_type() == "CONSUMER"
    replace(0, LibrdkafkaConsumer)
    replace(0, LibrdkafkaConsumer)
    replace(0, KafkaPython)
    assert group_type() == "CONSUMER"
    replace(0, Librdkafka)
    replace(0, Aiokafka)
    assert group_type() == "CLASSIC"
    load.is_ending.set()
    load.join(60)
    produced = {partition: set(range(count)) for partition, count in load.counts.items()}
    wait_until(lambda: owners.read == produced, "every record is read", lambda: None)
    for member in members:
        member.end()
    assert min(load.counts.values()) > 0
    assert owners.problems == []
