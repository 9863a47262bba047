"""`ottla.AsyncConsumer`: its interface, and what its methods check. On real brokers: tests/clients/test_async_consumer.py."""

import asyncio
import inspect
import socket
import threading
from typing import Any

import aiokafka
import pytest

import ottla
from ottla import AsyncConsumer
from ottla.client.async_consumer.errors import ConsumerStoppedError, IllegalStateError, KafkaConnectionError
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until

T0 = TopicPartition("t", 0)


def test_the_methods_are_those_of_aiokafka() -> None:
    theirs = {name for name in dir(aiokafka.AIOKafkaConsumer) if not name.startswith("_")}
    assert {name for name in dir(AsyncConsumer) if not name.startswith("_")} == theirs | {"metrics"}
    for name in theirs:
        ours, other = getattr(AsyncConsumer, name), getattr(aiokafka.AIOKafkaConsumer, name)
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(other), name
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(other).parameters), name


def test_names_of_aiokafka_are_in_the_package() -> None:
    for name in ("AsyncConsumer", "ConsumerRebalanceListener", "ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp"):
        assert inspect.isclass(getattr(ottla, name))


def test_records_are_not_waited_for_before_the_start() -> None:
    async def read() -> None:
        consumer = AsyncConsumer("t")
        for call in (consumer.getone, consumer.getmany, consumer.__anext__):
            with pytest.raises(IllegalStateError, match=r"start\(\) was not called yet"):
                await call()

    asyncio.run(read())


def test_a_consumer_needs_a_loop_and_good_arguments() -> None:
    with pytest.raises(RuntimeError):
        AsyncConsumer("t")

    async def make(**arguments: Any) -> None:
        AsyncConsumer("t", **arguments)

    with pytest.raises(ValueError, match="max_poll_records"):
        asyncio.run(make(max_poll_records=-1))
    for old in ("loop", "api_version"):
        with pytest.deprecated_call(match=old):
            asyncio.run(make(**{old: "auto"}))


def test_a_start_that_fails_leaves_nothing_behind() -> None:
    async def run() -> None:
        consumer = AsyncConsumer("t", bootstrap_servers="127.0.0.1:1", group_id="g")
        with pytest.raises(KafkaConnectionError):
            await consumer.start()
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()
        await consumer.stop()
        assert repr(consumer) == "<AsyncConsumer of group 'g' [] unjoined, partitions: 0, stopped>"
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_subscriptions(run: Any, new_topic: Any) -> None:
    topic = new_topic(2, 4)

    async def test(consumer: Any) -> None:
        with pytest.raises(IllegalStateError, match="start"):
            await consumer.start()
        with pytest.raises(TypeError, match="either"):
            consumer.subscribe()
        with pytest.raises(TypeError, match="either"):
            consumer.subscribe([topic], pattern="t.*")
        with pytest.raises(TypeError, match="list of names"):
            consumer.subscribe(topic)
        with pytest.raises(TypeError, match="listener"):
            consumer.subscribe([topic], listener=object())
        with pytest.raises(ValueError, match="not a valid pattern"):
            consumer.subscribe(pattern="(")
        assert consumer.subscription() == set()
        assert consumer.assignment() == set()
        consumer.subscribe([topic])
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            consumer.assign([T0])
        assert (await consumer.getone()).topic == topic
        assert consumer.subscription() == {topic}
        assert consumer.assignment() == {(topic, 0), (topic, 1)}
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert consumer.partitions_for_topic("unknown") is None
        assert topic in await consumer.topics()
        consumer.unsubscribe()
        assert (consumer.subscription(), consumer.assignment()) == (set(), set())
        consumer.assign([TopicPartition(topic, 1)])
        assert (await consumer.getone()).partition == 1
        assert consumer.assignment() == {(topic, 1)}
        assert consumer.subscription() == {topic}

    run(test, enable_auto_commit=False)


def test_a_pattern(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 1)

    async def test(consumer: Any) -> None:
        consumer.subscribe(pattern=f"{topic}$")
        assert (await consumer.getone()).topic == topic
        assert consumer.subscription() == {topic}

    run(test)


def test_without_a_group_all_partitions_are_read(run: Any, new_topic: Any) -> None:
    topic = new_topic(3, 9)

    async def test(consumer: Any) -> None:
        assert consumer.assignment() == {(topic, 0), (topic, 1), (topic, 2)}
        found = sorted([int((await consumer.getone()).value) for _ in range(9)])
        assert found == list(range(9))
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 2)])
        assert (await consumer.getone()).value == b"2"

    run(test, topic, group_id=None)


def test_pausing(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 10)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        await consumer.getone()
        consumer.pause(where)
        assert consumer.paused() == {where}
        assert await consumer.getmany(timeout_ms=50) == {}
        consumer.resume(where)
        assert consumer.paused() == set()
        assert (await consumer.getone()).offset == 1
        with pytest.raises(IllegalStateError):
            consumer.pause(T0)
        with pytest.raises(TypeError):
            consumer.pause("t")

    run(test, topic)


def test_what_the_last_fetch_said(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 10)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        consumer.pause(where)
        consumer.resume(where)
        await consumer.getone()
        assert consumer.highwater(where) == 10
        assert consumer.last_stable_offset(where) is not None
        import time

        assert abs(consumer.last_poll_timestamp(where) - time.time() * 1000) < 60_000
        with pytest.raises(IllegalStateError):
            consumer.highwater(T0)
        with pytest.raises(ValueError, match="positive"):
            consumer.seek(where, -1)

    run(test, topic)

    async def before(consumer: Any) -> None:
        consumer.assign([where])
        assert (consumer.highwater(where), consumer.last_stable_offset(where), consumer.last_poll_timestamp(where)) == (None,) * 3

    run(before)


def test_no_task_thread_or_socket_is_left_behind(run: Any, new_topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(1, 1)
    opened: list[Any] = []
    create = socket.create_connection

    def create_connection(*arguments: Any, **more: Any) -> Any:
        opened.append(create(*arguments, **more))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", create_connection)

    async def test(consumer: Any) -> None:
        await consumer.getone()
        await consumer.committed(TopicPartition(topic, 0))
        await consumer.stop()
        await consumer.stop()
        ours = {asyncio.current_task()} | {task for task in asyncio.all_tasks() if "with_consumer" in repr(task)}
        assert asyncio.all_tasks() == ours

    run(test, topic)
    assert opened
    assert {each.fileno() for each in opened} == {-1}
    wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("ottla-consumer")], "the end of all threads")
