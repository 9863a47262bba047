"""`ottla.AsyncConsumer` on real brokers: groups, rebalances in the background, commits, and members of other clients."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ottla
from ottla.protocol.model import TopicPartition

SETTINGS = {"auto_offset_reset": "earliest", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}


class Application:
    """Consumers of one broker in one event loop, which are stopped at the end."""

    def __init__(self, bootstrap_servers: str, unique_name: Callable[[str], str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.group = unique_name("group")
        self.made: list[Any] = []

    def consumer(self, *topics: str, **arguments: Any) -> ottla.AsyncConsumer:
        given = {"bootstrap_servers": self.bootstrap_servers, "group_id": self.group} | SETTINGS | arguments
        self.made.append(ottla.AsyncConsumer(*topics, **given))
        consumer: ottla.AsyncConsumer = self.made[-1]
        return consumer

    async def started(self, *topics: str, **arguments: Any) -> ottla.AsyncConsumer:
        consumer = self.consumer(*topics, **arguments)
        await consumer.start()
        return consumer

    def run(self, test: Callable[["Application"], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await asyncio.wait_for(test(self), 60)
            finally:
                for consumer in self.made:
                    await consumer.stop()

        asyncio.run(run())


@pytest.fixture
def application(kafka_broker: Any, unique_name: Callable[[str], str]) -> Application:
    return Application(kafka_broker.bootstrap_servers, unique_name)


async def read(consumer: Any, count: int) -> list[int]:
    """So many values."""
    return [int((await asyncio.wait_for(consumer.getone(), 20)).value) for _ in range(count)]


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop run until the condition holds."""
    while not condition():
        await asyncio.sleep(0.01)


def test_a_group_of_one_reads_commits_and_continues(application: Application, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, 100)

    async def test(app: Application) -> None:
        first = await app.started(topic)
        values = await read(first, 30)
        found = await first.getmany(timeout_ms=5_000, max_records=30)
        values += [int(record.value) for records in found.values() for record in records]
        await first.stop()
        second = await app.started(topic)
        values += await read(second, 100 - len(values))
        assert sorted(values) == list(range(100))
        assert await second.getmany(timeout_ms=100) == {}

    application.run(test)


def test_partitions_move_in_the_background(application: Application, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    calls: list[tuple[str, int]] = []

    class Listener(ottla.ConsumerRebalanceListener):
        def __init__(self, consumer: Any) -> None:
            self.consumer = consumer

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            calls.append(("revoked", len(revoked)))

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            calls.append(("assigned", len(assigned)))
            assert [await self.consumer.position(each) for each in assigned] == [0] * len(assigned)

    async def test(app: Application) -> None:
        first = app.consumer()
        first.subscribe([topic], listener=Listener(first))
        await first.start()
        assert len(first.assignment()) == 4
        second = await app.started(topic)  # the first one joins again, although no call of it waits
        await until(lambda: calls[-1] == ("assigned", 2))
        assert len(first.assignment()) == len(second.assignment()) == 2
        assert not first.assignment() & second.assignment()
        await second.stop()
        await until(lambda: calls[-1] == ("assigned", 4))
        assert calls == [("revoked", 0), ("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2), ("assigned", 4)]

    application.run(test)


def test_a_cooperative_group_keeps_what_does_not_move(application: Application, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4, 40)

    async def test(app: Application) -> None:
        first = await app.started(topic, partition_assignment_strategy="cooperative-sticky")
        await read(first, 1)
        before = first.assignment()
        second = await app.started(topic, partition_assignment_strategy="cooperative-sticky")
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        assert first.assignment() < before

    application.run(test)


@pytest.mark.parametrize("assignor", ["roundrobin", "range", "sticky"])
def test_one_group_with_aiokafka(application: Application, new_topic: Callable[..., str], assignor: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    classes = {each.name: each for each in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)}
    topic = new_topic(4, 20)

    async def test(app: Application) -> None:
        strategy = (classes[assignor],)
        ours = await app.started(topic, partition_assignment_strategy=strategy)
        arguments = SETTINGS | {"bootstrap_servers": app.bootstrap_servers, "group_id": app.group}
        theirs = AIOKafkaConsumer(topic, partition_assignment_strategy=strategy, **arguments)
        app.made.append(theirs)
        await theirs.start()
        await until(lambda: len(ours.assignment()) == 2)
        assert ours.assignment() | theirs.assignment() == {(topic, number) for number in range(4)}
        assert sorted([*await read(ours, 10), *await read(theirs, 10)]) == list(range(20))

    application.run(test)


def test_a_pattern_finds_a_topic_that_is_made_later(application: Application, new_topic: Callable[..., str]) -> None:
    first = new_topic(1, 1)

    async def test(app: Application) -> None:
        consumer = app.consumer(metadata_max_age_ms=200)
        consumer.subscribe(pattern=f"{first.rsplit('-', 1)[0]}.*")
        await consumer.start()
        assert (await consumer.getone()).topic == first
        second = await asyncio.to_thread(new_topic, 1, 1)
        assert (await consumer.getone()).topic == second

    application.run(test)


def test_automatic_commits_are_of_what_was_handed_out(application: Application, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, 10)
    where = TopicPartition(topic, 0)

    async def test(app: Application) -> None:
        consumer = await app.started(topic, auto_commit_interval_ms=50)
        await read(consumer, 5)
        waiting = asyncio.create_task(consumer.getone(TopicPartition(topic, 7)))
        while await consumer.committed(where) != 5:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await read(consumer, 1)
        await consumer.stop()
        other = await app.started(topic, enable_auto_commit=False)
        assert await other.committed(where) == 6
        assert await read(other, 4) == [6, 7, 8, 9]

    application.run(test)


def test_a_blocked_loop_is_survived_and_warned_of(
    application: Application, new_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(1, 20)

    async def test(app: Application) -> None:
        consumer = await app.started(topic)
        await read(consumer, 10)
        with caplog.at_level(logging.WARNING, "ottla.consumer"):
            time.sleep(0.6)
            await until(lambda: "event loop blocked" in caplog.text)
        assert await read(consumer, 10) == list(range(10, 20))
        await consumer.commit()

    application.run(test)


def test_a_static_member_keeps_its_partitions(application: Application, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, 4)

    async def test(app: Application) -> None:
        first = await app.started(topic, group_instance_id="one")
        second = await app.started(topic, group_instance_id="two")
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 1)
        kept, generation = first.assignment(), second._engine.membership.generation
        await first.stop()
        again = await app.started(topic, group_instance_id="one")
        assert again.assignment() == kept
        assert second._engine.membership.generation == generation

    application.run(test)


def test_committed_and_aborted_transactions(application: Application, kafka_broker: Any, new_topic: Callable[..., str]) -> None:
    from confluent_kafka import Producer

    topic = new_topic(1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(60)
        end(30)

    async def test(app: Application) -> None:
        committed = await app.started(topic, isolation_level="read_committed", group_id=None)
        assert await read(committed, 2) == [0, 2]
        assert committed.last_stable_offset(TopicPartition(topic, 0)) == 6
        everything = await app.started(topic, group_id=None)
        assert await read(everything, 3) == [0, 1, 2]

    application.run(test)
