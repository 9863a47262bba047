"""`ottla.Consumer` without a broker: its interface, what it refuses, and that it ends. On real brokers: tests/clients/test_consumer.py."""

import inspect
import signal
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import ottla
from ottla import Consumer, KafkaError, KafkaException, Message, TopicPartition, WakeupException, extras
from ottla.client.consumer.driver import Driver
from ottla.client.errors import AuthenticationError, ClientError

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "reconnect.backoff.ms": 10}


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with Consumer(CONFIG) as made:
        yield made


def test_the_methods_are_those_of_confluent_kafka() -> None:
    theirs = {name for name in dir(confluent_kafka.Consumer) if not name.startswith("_")}
    assert theirs - set(dir(Consumer)) == set(), "docs/skipped.md names them"


def test_the_names_of_confluent_kafka_are_there() -> None:
    for name in ("Consumer", "KafkaError", "KafkaException", "Message", "TopicPartition", "WakeupException"):
        assert inspect.isclass(getattr(ottla, name))
    for name in ("OFFSET_BEGINNING", "OFFSET_END", "OFFSET_INVALID", "OFFSET_STORED"):
        assert getattr(ottla, name) == getattr(confluent_kafka, name)
    assert {each for each in dir(ottla) if not each.startswith("__")} >= {"Consumer", "AsyncConsumer", "TIMESTAMP_CREATE_TIME"}
    assert not {each for each in dir(ottla) if each.islower() and not each.startswith("__")}, "no module that happens to be loaded"
    with pytest.raises(AttributeError):
        _ = ottla.no_such_name  # type: ignore[attr-defined]


def test_what_is_printed(consumer: Consumer) -> None:
    assert repr(consumer) == "<Consumer of group 'g' [] unjoined, partitions: 0>"
    consumer.subscribe(["t", "^x.*"])
    assert repr(consumer).startswith("<Consumer of group 'g' ['^x.*', 't'] ")
    consumer.close()
    assert repr(consumer).endswith(", closed>")
    assert repr(ottla.Message("t", 0, 5, b"k", b"v" * 500)) == f"Message(topic='t', partition=0, offset=5, key=b'k', value=b'{'v' * 98})"
    error = repr(ottla.Message("t", 0, error=KafkaError(3)))
    assert error.startswith("Message(topic='t', partition=0, offset=None, error=KafkaError{code=UNKNOWN_TOPIC")


def test_properties_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Failed to create consumer: group\.id must be set"):
        Consumer({"bootstrap.servers": "h:1"})
    with pytest.raises(KafkaException, match="foo is no property") as refused:
        Consumer(CONFIG | {"foo": 1})
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG


def test_nothing_comes_without_a_broker(consumer: Consumer) -> None:
    consumer.subscribe(["t"])
    assert consumer.poll(0.05) is None
    assert consumer.consume(5, 0) == []
    assert consumer.assignment() == []
    assert consumer.memberid() is None


def refused(call: Any, *arguments: Any, **more: Any) -> int:
    with pytest.raises(KafkaException) as raised:
        call(*arguments, **more)
    code: int = raised.value.args[0].code()
    return code


@pytest.mark.conformance("SubscriptionStateTest.cantChangePositionForNonAssignedPartition")
def test_calls_about_partitions_that_are_not_assigned(consumer: Consumer) -> None:
    where = TopicPartition("t", 0, 3)
    assert refused(consumer.seek, where) == KafkaError._UNKNOWN_PARTITION
    consumer.pause([where])
    consumer.resume([where])
    assert refused(consumer.incremental_unassign, [where]) == KafkaError._INVALID_ARG
    assert refused(consumer.store_offsets, offsets=[where]) == KafkaError._INVALID_ARG
    assert consumer.position([where])[0].offset == ottla.OFFSET_INVALID
    assert consumer.get_watermark_offsets(where, cached=True) == (ottla.OFFSET_INVALID, ottla.OFFSET_INVALID)


def test_commits_without_offsets(consumer: Consumer) -> None:
    assert refused(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    assert consumer.commit() is None
    with pytest.raises(ValueError, match="mutually exclusive"):
        consumer.commit(message=object(), offsets=[])


def test_lookups_without_a_broker(consumer: Consumer) -> None:
    assert refused(consumer.committed, [TopicPartition("t", 0)], timeout=0.05) == KafkaError._TIMED_OUT
    assert refused(consumer.list_topics, timeout=0.05) == KafkaError._TIMED_OUT


def test_partitions_assigned_by_hand(consumer: Consumer) -> None:
    consumer.assign([TopicPartition("t", 1, 5), TopicPartition("t", 0)])
    assert consumer.assignment() == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert [each.offset for each in consumer.position(consumer.assignment())] == [ottla.OFFSET_INVALID, 5]
    consumer.incremental_assign([TopicPartition("u", 0)])
    consumer.incremental_unassign([TopicPartition("t", 0)])
    assert consumer.assignment() == [TopicPartition("t", 1), TopicPartition("u", 0)]
    consumer.unsubscribe()
    assert consumer.assignment() == []


def test_the_number_of_messages_is_bounded(consumer: Consumer) -> None:
    with pytest.raises(ValueError, match="num_messages"):
        consumer.consume(1_000_001, 0)


def test_a_signals_handler_may_wake_up_a_poll(consumer: Consumer) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(WakeupException):
            consumer.poll()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_wakeup_before_a_commit_sends_nothing(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def answer_at_once(commit: Any) -> None:
        sent.append(commit)
        commit.is_done = True

    monkeypatch.setattr(consumer._engine.commits, "commit", answer_at_once)
    consumer.wakeup()
    with pytest.raises(WakeupException):
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    assert sent == []


def test_the_lag_is_not_known_without_a_broker(consumer: Consumer) -> None:
    assert consumer.lag() == {}
    consumer.assign([TopicPartition("t", 1, 5)])
    assert consumer.lag() == {TopicPartition("t", 1): None}


def test_arrow_batches_without_records(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert consumer.poll_arrow(timeout=0) is None
    with pytest.raises(ValueError, match="max_records must be positive"):
        consumer.poll_arrow(max_records=-1)
    monkeypatch.setattr(extras, "missing_packages", lambda extra: ["pyarrow"])
    with pytest.raises(extras.MissingExtraError, match=r'pyarrow is not installed: pip install "ottla\[arrow\]"'):
        consumer.poll_arrow(timeout=0)


def test_interceptors_are_closed_with_the_consumer() -> None:
    closed: list[bool] = []

    class Interceptor:
        def close(self) -> None:
            closed.append(True)

    Consumer(CONFIG | {"interceptor.classes": [Interceptor()]}).close()
    assert closed == [True]


@pytest.mark.conformance("FetcherTest.testCloseShouldBeIdempotent")
def test_a_closed_consumer_refuses_calls(consumer: Consumer) -> None:
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.poll_arrow, consumer.assignment, consumer.unsubscribe, consumer.list_topics):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()


@pytest.mark.parametrize("name", ["subscribe", "assign", "incremental_assign", "pause", "resume", "seek", "commit"])
def test_what_a_call_changes_is_seen_by_the_consumers_thread_at_once(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    consumer.assign([TopicPartition("t", 0, 5)])
    woken: list[Driver] = []
    monkeypatch.setattr(Driver, "wake", lambda driver: woken.append(driver))
    where = TopicPartition("u" if name == "incremental_assign" else "t", 0, 7)
    if name == "commit":
        consumer.commit(offsets=[where])
    else:
        getattr(consumer, name)({"subscribe": ["t"], "seek": where}.get(name, [where]))
    assert woken


def test_iterating_gives_messages_and_raises_errors(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Message("t", 0, 5), Message("t", 0, 6)
    polled = [None, first, Message("t", 0, error=KafkaError(KafkaError._PARTITION_EOF)), second, Message("t", 0, error=KafkaError(3))]
    monkeypatch.setattr(consumer, "poll", lambda: polled.pop(0))
    messages = iter(consumer)
    assert [next(messages), next(messages)] == [first, second]
    with pytest.raises(KafkaException) as raised:
        next(messages)
    assert raised.value.args[0].code() == 3


@pytest.mark.parametrize(
    ("error", "code"), [(AuthenticationError("no"), KafkaError._AUTHENTICATION), (ClientError("no"), KafkaError._FAIL)]
)
def test_what_a_broker_refuses_is_raised_once(consumer: Consumer, error: ClientError, code: int) -> None:
    consumer._driver.refusal = error
    assert refused(consumer.poll, 0) == code
    assert consumer.poll(0) is None


def test_a_refused_login_is_told_to_the_callback_for_errors_alone() -> None:
    with Consumer(CONFIG | {"error_cb": print}) as consumer:
        consumer._driver.refusal = AuthenticationError("no")
        assert consumer.poll(0) is None
        consumer._driver.refusal = ClientError("no")
        assert refused(consumer.poll, 0) == KafkaError._FAIL


def test_a_program_that_closes_no_consumer_ends(consumer: Consumer) -> None:
    consumer.subscribe(["t"])
    assert consumer.poll(0.01) is None
    assert [thread.name for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon] == []


def test_the_end_of_the_consumers_thread_is_fatal(consumer: Consumer) -> None:
    consumer._driver.failure = MemoryError()
    for _ in range(2):
        with pytest.raises(KafkaException, match="the consumer's thread has ended: MemoryError") as raised:
            consumer.poll(0)
        assert (raised.value.args[0].code(), raised.value.args[0].fatal()) == (KafkaError._FATAL, True)
