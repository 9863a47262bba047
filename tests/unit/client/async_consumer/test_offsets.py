"""Positions and committed offsets: what is taken, what is refused, and what the cluster says."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import aiokafka
import pytest

import ottla
import ottla.testing
from ottla.client.async_consumer.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    UnknownTopicOrPartitionError,
)
from ottla.client.async_consumer.offsets import Lookups, given_offsets
from ottla.client.async_consumer.record import OffsetAndTimestamp
from ottla.client.engine.values import OffsetAndMetadata
from ottla.client.errors import BrokerUnavailableError, RequestFailedError, UnknownTopicError
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("offset", [5, (5, ""), aiokafka.structs.OffsetAndMetadata(5, ""), ottla.OffsetAndMetadata(5)])
@pytest.mark.parametrize("partition", [T0, aiokafka.TopicPartition("t", 0), ottla.TopicPartition("t", 0)])
def test_offsets_to_commit(offset: Any, partition: Any) -> None:
    assert given_offsets({partition: offset}) == {T0: OffsetAndMetadata(5)}


@pytest.mark.parametrize(
    ("offsets", "error"), [({}, ValueError), ([T0], ValueError), ({T0: "x"}, ValueError), ({T0: (1, 2)}, TypeError), ({"t": 1}, TypeError)]
)
def test_malformed_offsets(offsets: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        given_offsets(offsets)


def test_commits(run: Any, new_topic: Any) -> None:
    topic = new_topic(2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def test(consumer: Any) -> None:
        assert await consumer.committed(zero) is None
        await consumer.getone(zero)
        await consumer.position(one)
        await consumer.commit()
        assert [await consumer.committed(each) for each in (zero, one)] == [1, 0]
        await consumer.commit({one: (3, "why")})
        assert await consumer.committed(one) == 3
        with pytest.raises(IllegalStateError, match="is not assigned"):
            await consumer.commit({T0: 1})
        with pytest.raises(OffsetMetadataTooLargeError):
            await consumer.commit({one: (3, "x" * 5_000)})
        consumer._engine.membership.commit_refused = lambda *_: False
        consumer._engine.membership.generation += 7
        with pytest.raises(CommitFailedError):
            await consumer.commit()
        consumer._engine.membership.generation -= 7

    run(test, topic)


def test_every_call_counts_the_records_that_were_taken_before(run: Any, new_topic: Any) -> None:
    """Those that follow one which was waited for are handed out without a look at positions."""
    topic = new_topic(1, 40)
    zero = TopicPartition(topic, 0)

    async def take_five(consumer: Any, first: int) -> int:
        for number in range(first, first + 5):
            assert (await consumer.getone()).offset == number
        return first + 5

    async def test(consumer: Any) -> None:
        taken = await take_five(consumer, 0)
        await consumer.commit()
        assert await consumer.committed(zero) == taken
        taken = await take_five(consumer, taken)
        assert await consumer.position(zero) == taken
        taken = await take_five(consumer, taken)
        consumer.pause(zero)
        consumer.resume(zero)
        taken = await take_five(consumer, taken)
        consumer.unsubscribe()
        consumer.assign([zero])
        taken = await take_five(consumer, taken)  # what was taken before is committed
        await consumer.commit()
        assert await consumer.seek_to_committed() == {zero: taken}

    run(test, topic)


def test_seeks(run: Any, new_topic: Any) -> None:
    topic = new_topic(2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def test(consumer: Any) -> None:
        assert await consumer.seek_to_end()
        assert [await consumer.position(each) for each in (zero, one)] == [5, 5]
        assert await consumer.seek_to_beginning(one)
        assert [await consumer.position(each) for each in (zero, one)] == [5, 0]
        await consumer.commit({zero: 2})
        assert await consumer.seek_to_committed() == {zero: 2, one: None}
        assert [await consumer.position(each) for each in (zero, one)] == [2, 0]
        with pytest.raises(IllegalStateError):
            await consumer.seek_to_end(T0)
        with pytest.raises(IllegalStateError):
            await consumer.position(T0)

    run(test, topic)


def test_offsets_of_the_cluster(run: Any, new_topic: Any, broker: Any) -> None:
    topic = new_topic(1)
    broker.produce(topic, [b"0"], timestamp_ms=1_000)
    broker.produce(topic, [b"1"], timestamp_ms=2_000)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: 2}
        assert await consumer.offsets_for_times({where: 1_500}) == {where: OffsetAndTimestamp(1, 2_000)}
        assert await consumer.offsets_for_times({where: 3_000}) == {where: None}
        with pytest.raises(ValueError, match="negative"):
            await consumer.offsets_for_times({where: -1})

    run(test)


def test_without_a_group_and_without_partitions(run: Any) -> None:
    async def without_group(consumer: Any) -> None:
        with pytest.raises(IllegalOperation):
            await consumer.commit()
        with pytest.raises(IllegalOperation):
            await consumer.committed(T0)

    async def without_partitions(consumer: Any) -> None:
        with pytest.raises(IllegalStateError, match="Not subscribed"):
            await consumer.commit()
        consumer.subscribe(pattern="no-topic-matches-this")
        with pytest.raises(IllegalStateError, match="No partitions"):
            await consumer.commit()

    run(without_group, group_id=None)
    run(without_partitions)


def test_other_errors_of_commits(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 1)

    async def test(consumer: Any) -> None:
        await consumer.getone()
        commits, where = consumer._engine.commits, TopicPartition(topic, 0)
        commit = asyncio.create_task(consumer.commit({where: 1}))
        await asyncio.sleep(0)
        commits._fail(commits._waiting.pop(), ErrorCode.GROUP_AUTHORIZATION_FAILED, 0)
        consumer._shell.driver._on_change()
        with pytest.raises(Exception, match="GroupAuthorizationFailedError"):
            await commit

    run(test, topic)


def test_an_application_that_does_not_call_loses_its_partitions(run: Any, new_topic: Any) -> None:
    topic = new_topic(1, 3)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        membership = consumer._engine.membership
        assert (await consumer.getone()).offset == 0
        while not membership.has_poll_expired:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert membership.member_id == "", "it joins again when the application calls"
        with pytest.raises(CommitFailedError):
            await consumer.commit({where: 1})
        assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]

    run(test, topic, session_timeout_ms=300, heartbeat_interval_ms=50, max_poll_interval_ms=400, enable_auto_commit=False)


def ask(call: Any, address: str = "127.0.0.1:1", timeout_ms: int = 50) -> Any:
    async def run() -> Any:
        lookups = Lookups(ClientSettings(bootstrap_servers=address), connect=connect, timeout_ms=timeout_ms)
        try:
            return await lookups.ask(call)
        finally:
            await lookups.stop()
            await lookups.stop()

    return asyncio.run(run())


def fail(error: Exception) -> Any:
    def call(admin: Any) -> None:
        raise error

    return call


def test_an_answer(broker: Any) -> None:
    before = threading.active_count()
    assert isinstance(ask(lambda admin: admin.list_topics(), broker.bootstrap_servers, 10_000), dict)
    wait_until(lambda: threading.active_count() == before, "the question's thread to end")


def test_no_answer_in_time() -> None:
    with pytest.raises(KafkaTimeoutError, match="Timed out"):
        ask(lambda admin: admin.list_topics())


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RequestFailedError("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED), "TopicAuthorizationFailedError"),
        (UnknownTopicError("topic t does not exist"), "UnknownTopicOrPartitionError"),
        (BrokerUnavailableError("gone"), "KafkaConnectionError"),
        (PeerError("nonsense"), "KafkaError"),
    ],
)
def test_errors(error: Exception, raised: str) -> None:
    with pytest.raises(KafkaError) as found:
        ask(fail(error))
    assert type(found.value).__name__ == raised
    assert issubclass(UnknownTopicOrPartitionError, KafkaError)
    assert issubclass(KafkaConnectionError, KafkaError)


QUESTIONS = {
    "end_offsets": lambda consumer: consumer.end_offsets([T0]),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([T0]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 1}),
    "committed": lambda consumer: consumer.committed(T0),
    "topics": lambda consumer: consumer.topics(),
}


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a broker that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def lookup_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("ottla-consumer-lookup")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_is_cancelled_leaves_no_thread(question: str, silent: str) -> None:
    async def cancel() -> None:
        consumer = ottla.AsyncConsumer(bootstrap_servers=silent, group_id="g")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(QUESTIONS[question](consumer), 0.1)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        wait_until(lambda: not lookup_threads(), "the end of the thread")
        await consumer.stop()

    asyncio.run(cancel())


def test_stopping_ends_questions(silent: str) -> None:
    async def stop() -> None:
        consumer = ottla.AsyncConsumer(bootstrap_servers=silent, group_id="g")
        questions = [asyncio.create_task(consumer.committed(T0)), asyncio.create_task(consumer.topics())]
        await asyncio.sleep(0)
        await consumer.stop()
        assert [type(each) for each in await asyncio.gather(*questions, return_exceptions=True)] == [ConsumerStoppedError] * 2

    asyncio.run(stop())
    wait_until(lambda: not lookup_threads(), "the end of the threads")


def test_a_question_that_is_cancelled_ends_no_other(run: Any, new_topic: Any, broker: Any) -> None:
    topic = new_topic(1, 3)
    where = TopicPartition(topic, 0)

    async def test(consumer: Any) -> None:
        # No such partition: it is looked for until the timeout.
        waiting = asyncio.create_task(consumer.end_offsets([TopicPartition(topic, 9)]))
        await asyncio.sleep(0)
        assert await consumer.end_offsets([where]) == {where: 3}
        waiting.cancel()
        assert await consumer.beginning_offsets([where]) == {where: 0}

    run(test)


@pytest.mark.parametrize("question", ["end_offsets", "beginning_offsets", "offsets_for_times"])
def test_a_question_creates_a_missing_topic(question: str, run: Any, broker: Any) -> None:
    where = TopicPartition(f"asked-for-{question}", 0)

    async def test(consumer: Any) -> Any:
        asked = {where: 1} if question == "offsets_for_times" else [where]
        return await getattr(consumer, question)(asked)

    assert run(test) == {where: None if question == "offsets_for_times" else 0}


def test_a_topic_that_is_not_created_is_waited_for() -> None:
    with ottla.testing.Broker(config={"auto.create.topics.enable": "false"}) as broker:

        async def ask_for_ends() -> None:
            async with ottla.AsyncConsumer(bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=1_500) as consumer:
                with pytest.raises(KafkaTimeoutError, match="topic t does not exist"):
                    await consumer.end_offsets([T0])

        asyncio.run(ask_for_ends())
