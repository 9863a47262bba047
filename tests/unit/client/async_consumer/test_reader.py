"""What getone, getmany and iteration return: limits, partitions, cancellation, errors in the place of records."""

import asyncio
import logging
from typing import Any

import pytest

from ottla.client.async_consumer import reader
from ottla.client.async_consumer.errors import (
    ConsumerStoppedError,
    CorruptRecordException,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from ottla.client.engine.record_buffer import UndecodableRecords
from ottla.client.engine.values import LogTruncated, OffsetAndMetadata, PartitionFailure, PollIntervalExceeded, TopicUnavailable
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition


def values(found: dict[Any, list[Any]]) -> list[int]:
    return [int(record.value) for records in found.values() for record in records]


async def many(consumer: Any, count: int) -> list[int]:
    """So many records by getmany."""
    found: list[int] = []
    while len(found) < count:
        found += values(await consumer.getmany(timeout_ms=1_000))
    return found


def test_records_come_one_by_one_and_by_partition(run: Any, new_topic: Any) -> None:
    topic = new_topic(2, 100)

    async def test(consumer: Any) -> None:
        first = [int((await consumer.getone()).value) for _ in range(10)]
        found = await consumer.getmany(timeout_ms=1_000, max_records=20)
        assert sum(map(len, found.values())) == 20
        assert all(partition == (record.topic, record.partition) for partition, records in found.items() for record in records)
        rest = await many(consumer, 70)
        assert sorted(first + values(found) + rest) == list(range(100))
        assert await consumer.getmany() == {}
        positions = [await consumer.position(TopicPartition(topic, number)) for number in (0, 1)]
        assert positions == [50, 50]

    run(test, topic)


def test_iteration_moves_the_position_behind_each_record(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 50)

    async def test(consumer: Any) -> None:
        async for record in consumer:
            if record.offset % 7 == 0:
                assert await consumer.position(TopicPartition(topic, 0)) == record.offset + 1
            if record.offset == 49:
                break
        await consumer.commit()
        assert await consumer.committed(TopicPartition(topic, 0)) == 50

    run(test, topic)


def test_a_limit_without_a_number(run: Any, new_topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RECORDS_MAX", 7)

    async def test(consumer: Any) -> None:
        assert values(await consumer.getmany(timeout_ms=5_000)) == list(range(7))
        assert (await consumer.getone()).offset == 7

    run(test, new_topic(1, 30))


def test_records_of_some_partitions(run: Any, new_topic: Any) -> None:
    topic = new_topic(2, 20)
    one = TopicPartition(topic, 1)

    async def test(consumer: Any) -> None:
        assert (await consumer.getone(one)).partition == 1
        found = await consumer.getmany(one, timeout_ms=5_000)
        assert set(found) == {one}
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.getone(one), 0.05)
        assert {record.partition for record in (await consumer.getmany(timeout_ms=5_000)).get(TopicPartition(topic, 0), [])} == {0}

    run(test, topic)


def test_a_cancelled_call_loses_no_record(run: Any, broker: Any, new_topic: Any) -> None:
    topic = new_topic(1)

    async def test(consumer: Any) -> None:
        found: list[int] = []
        for number in range(20):
            waiting = asyncio.create_task(consumer.getone() if number % 2 else consumer.getmany(timeout_ms=10_000))
            await asyncio.sleep(0)
            await asyncio.to_thread(broker.produce, topic, [b"%d" % number])
            for _ in range(number):
                await asyncio.sleep(0)
            waiting.cancel()
            try:
                got = await waiting
            except asyncio.CancelledError:
                continue
            found += values(got) if isinstance(got, dict) else [int(got.value)]
        while len(found) < 20:
            found += values(await consumer.getmany(timeout_ms=5_000))
        assert found == list(range(20))

    run(test, topic)


def test_several_tasks_share_the_records(run: Any, new_topic: Any) -> None:
    async def test(consumer: Any) -> None:
        found: list[int] = []

        async def read() -> None:
            while len(found) < 40:
                found.append(int((await consumer.getone()).value))
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(read()) for _ in range(3)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(found) == list(range(40))

    run(test, new_topic(1, 40))


def test_stopping_ends_calls_that_wait(run: Any, new_topic: Any) -> None:
    async def test(consumer: Any) -> None:
        one, more = asyncio.create_task(consumer.getone()), asyncio.create_task(consumer.getmany(timeout_ms=60_000))

        async def iterate() -> list[Any]:
            return [record async for record in consumer]

        iteration = asyncio.create_task(iterate())
        await asyncio.sleep(0.01)
        await consumer.stop()
        with pytest.raises(ConsumerStoppedError):
            await one
        assert await more == {}
        assert await iteration == []
        with pytest.raises(ConsumerStoppedError):
            await consumer.getmany()
        with pytest.raises(ConsumerStoppedError):
            aiter(consumer)

    run(test, new_topic())


@pytest.mark.parametrize("arguments", [{}, {"value_deserializer": bytes}])
def test_long_values(run: Any, broker: Any, new_topic: Any, arguments: Any) -> None:
    """The compiled decoder, which large fetches get, makes long values when they are asked for."""
    topic = new_topic(1)
    long = [b"%04d" % number * 500 for number in range(40)]
    broker.produce(topic, long)

    async def test(consumer: Any) -> None:
        found = [(await consumer.getone()).value for _ in range(5)]
        while len(found) < 40:
            for records in (await consumer.getmany(timeout_ms=5_000, max_records=20)).values():
                found += [record.value for record in records]
        assert found == long

    run(test, topic, **arguments)


def test_a_record_that_cannot_be_deserialized_stays_next(run: Any, broker: Any, new_topic: Any) -> None:
    topic = new_topic(1)
    broker.produce(topic, [b"0", b"1", b"x", b"3"])

    async def test(consumer: Any) -> None:
        where = TopicPartition(topic, 0)
        found = await consumer.getmany(timeout_ms=5_000)
        assert [record.value for record in found[where]] == [0, 1]
        for read in (consumer.getone, lambda: consumer.getmany(timeout_ms=5_000)):
            with pytest.raises(ValueError, match="invalid literal"):
                await read()
        assert await consumer.position(where) == 2
        consumer.seek(where, 0)
        assert [(await consumer.getone()).value for _ in range(2)] == [0, 1]
        with pytest.raises(ValueError, match="invalid literal"):
            await consumer.getone()
        consumer.seek(where, 3)
        assert (await consumer.getone()).value == 3

    run(test, topic, value_deserializer=int)


def test_partitions_that_cannot_be_read(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 3)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        with pytest.raises(NoOffsetForPartitionError, match=topic):
            await consumer.getone()
        consumer.seek(where, 99)
        with pytest.raises(OffsetOutOfRangeError) as raised:
            await consumer.getone()
        assert raised.value.args[0] == {where: 99}
        consumer.seek(where, 1)
        assert (await consumer.getone()).offset == 1

    run(test, topic, auto_offset_reset="none")


def test_events_of_the_engine(run: Any, new_topic: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(1, 3)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        refused = PartitionFailure(where, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the broker refuses to read it")
        missing = TopicUnavailable("later", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        consumer._engine._events += [PollIntervalExceeded(7_000), missing, refused]
        with (
            caplog.at_level(logging.WARNING, "ottla.consumer"),
            pytest.raises(TopicAuthorizationFailedError, match="0 cannot be read: the broker refuses"),
        ):
            await consumer.getone()
        assert "max_poll_interval_ms=7000 exceeded" in caplog.text
        assert "the topic later cannot be read: UNKNOWN_TOPIC_OR_PARTITION" in caplog.text
        assert (await consumer.getone()).offset == 0
        consumer._engine._events += [LogTruncated(where, OffsetAndMetadata(7), None)]
        with pytest.raises(OffsetOutOfRangeError, match="7"):
            await consumer.getmany()

        def undecodable(count: int, **more: Any) -> Any:
            raise UndecodableRecords(where, 1, PeerError("CRC-32C is wrong"))

        monkeypatch.setattr(consumer._engine, "take", undecodable)
        with pytest.raises(CorruptRecordException, match="CRC-32C is wrong"):
            await consumer.getmany(timeout_ms=100)

    run(test, topic)


def test_a_loop_of_calls_lets_others_run(run: Any, new_topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LOOP_MS_MAX", 0.0)

    async def test(consumer: Any) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(count())
        assert await many(consumer, 40) == list(range(40))
        before = turns
        for _ in range(10):
            await consumer.getmany()
        assert turns >= before + 10
        other.cancel()

    run(test, new_topic(1, 40))
