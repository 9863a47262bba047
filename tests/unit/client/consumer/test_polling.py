"""Polls: records without the lock, what comes before records, what is in hand when something happens, and `wakeup`."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, ValueDeserializationError, WakeupException
from ottla.client.consumer.message import ErrorMessage, Message, messages_of
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.consumer.polling import MessageProcessing, Poller
from ottla.client.engine.record_buffer import NO_RUN, RecordRun, Slice, UndecodableRecords
from ottla.client.engine.values import OffsetAndMetadata, PartitionEnd
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.client.membership.evidence import PollMeter
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch

T0 = TopicPartition("t", 0)
COLUMNS: Any = next(
    decode_plain(FetchedRecords(T0, 0, 9, memoryview(bytes(encode_batch([Record(at, 0, None, b"%d" % at) for at in range(9)])))))
)


class FakeEngine:
    """Gives what it has: `events`, then the rows of `slices`; an exception among these is raised."""

    def __init__(self) -> None:
        self.run = NO_RUN
        self.events: list[Any] = []
        self.slices: list[Any] = []
        self.polls: list[bool] = []
        self.evidence = SimpleNamespace(polls=PollMeter(0))
        self.sought: list[Any] = []
        self.has_fetches_due = False
        self.membership = SimpleNamespace(failure=None)
        self.rebalances = SimpleNamespace(is_due=False)

    def poll(self, now_ms: float, *, is_processed: bool) -> None:
        self.polls.append(is_processed)

    def take_events(self, count: int) -> list[Any]:
        taken, self.events = self.events[:count], self.events[count:]
        return taken

    def take(self, count: int, *, enough: int | None = None) -> list[Slice]:
        if not self.slices or not count:
            return []
        if isinstance(self.slices[0], Exception):
            raise self.slices.pop(0)
        first, end = self.slices.pop(0)
        taken = min(end, first + count)
        if taken < end:
            self.slices.insert(0, (taken, end))
        return [Slice(T0, COLUMNS, first, taken, taken, 0)]

    def start_run(self, now_ms: float) -> None:
        if self.slices and not self.events and not isinstance(self.slices[0], Exception):
            first, end = self.slices[0]
            self.run = RecordRun(T0, COLUMNS, first, end, now_ms=now_ms, ends_ms=inf)

    def idle_ms(self, now_ms: float, *, has_records: bool) -> float:
        return 150_000

    def has_records(self) -> bool:
        return bool(self.slices)

    def take_back(self, events: list[Any], starts: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.events[:0] = events
        self.sought += starts.items()


class Shell:
    """A poller with an engine and a driver of values. `waits`: what happens in the turns of waiting."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.now_ms = 0.0
        self.waits: list[Any] = []
        self.uses = 0
        condition = SimpleNamespace(wait=self.wait)
        self.driver: Any = SimpleNamespace(
            condition=condition, failure=None, refusal=None, now_ms=lambda: self.now_ms, wake=lambda: None, notify=lambda: None
        )
        self.failures: list[Exception] = []
        engine: Any = self.engine
        calls: Any = SimpleNamespace(run=lambda function: function(), is_abandoned=False)
        self.poller = Poller(
            engine,
            self.driver,
            calls,
            use=self.use,
            find_callback=lambda now_ms: False,
            run_callback=lambda: None,
            raise_failures=lambda failure: self.raise_failures(),
        )

    @contextmanager
    def use(self) -> Iterator[None]:
        self.uses += 1
        self.engine.run = NO_RUN
        self.poller.take_back()
        yield

    def wait(self, seconds: float) -> None:
        if self.waits:
            self.waits.pop(0)()
        else:
            self.now_ms += seconds * 1000

    def raise_failures(self) -> None:
        if self.driver.refusal is not None:
            raise KafkaException(self.driver.refusal)


@pytest.fixture
def shell() -> Shell:
    return Shell()


def offsets(messages: list[Message]) -> list[int | None]:
    return [message.offset() for message in messages]


def polled(shell: Shell) -> Message:
    message = shell.poller.poll(0)
    assert message is not None
    return message


def test_the_records_behind_the_first_one_come_without_the_lock(shell: Shell) -> None:
    shell.engine.slices = [(0, 4)]
    assert offsets([polled(shell) for _ in range(4)]) == [0, 1, 2, 3]
    assert (shell.uses, len(shell.engine.polls)) == (1, 1)
    assert shell.engine.run.polled_ms > 0
    shell.engine.slices = []
    assert shell.poller.poll(0) is None
    assert shell.uses == 2


def test_an_event_and_a_record_are_two_messages(shell: Shell) -> None:
    shell.engine.events = [PartitionEnd(T0, 3), PartitionEnd(T0, 4)]
    shell.engine.slices = [(5, 6)]
    first, second, third = (polled(shell) for _ in range(3))
    assert (first.error(), first.offset(), second.offset()) == (KafkaError._PARTITION_EOF, 3, 4)
    assert (third.error(), third.offset()) == (None, 5)


def test_consume_waits_for_more_until_its_time_is_over(shell: Shell) -> None:
    shell.engine.slices = [(0, 2)]
    shell.waits = [lambda: shell.engine.slices.append((2, 4))]
    assert offsets(shell.poller.consume(9, 1)) == [0, 1, 2, 3]
    assert shell.now_ms == 1_000
    assert shell.engine.polls == [True, False, False], "automatic commits leave out what is in hand"


@pytest.mark.parametrize("what", ["rebalance", "refusal", "wakeup"])
def test_what_is_in_hand_is_handed_out_before_something_else_happens(shell: Shell, what: str) -> None:
    def happen() -> None:
        if what == "rebalance":
            shell.engine.rebalances.is_due = True
        elif what == "refusal":
            shell.driver.refusal = ValueError("refused")
        else:
            shell.poller.wakeup()

    shell.engine.slices = [(0, 2)]
    shell.waits = [happen]
    assert offsets(shell.poller.consume(9, 60)) == [0, 1]
    assert shell.now_ms == 0
    if what == "rebalance":
        assert shell.engine.polls == [True]
    else:
        with pytest.raises(KafkaException):
            shell.poller.consume(9, 60)


def test_records_that_cannot_be_read_are_an_error_behind_those_before_them(shell: Shell) -> None:
    bad = UndecodableRecords(T0, 2, PeerError("bad"))
    shell.engine.slices = [(0, 2), bad, bad]
    assert offsets(shell.poller.consume(9, 60)) == [0, 1]
    with pytest.raises(KafkaException, match="t-0 cannot be read from offset 2 on") as raised:
        shell.poller.consume(9, 60)
    assert raised.value.args[0].code() == KafkaError._BAD_MSG


def test_a_wakeup_ends_one_call(shell: Shell) -> None:
    shell.engine.slices = [(0, 4)]
    polled(shell)
    shell.poller.wakeup()
    with pytest.raises(WakeupException):
        shell.poller.poll(0)
    assert polled(shell).offset() == 1
    shell.engine.slices, shell.engine.run = [], NO_RUN
    shell.waits = [shell.poller.wakeup]
    with pytest.raises(WakeupException):
        shell.poller.poll()


def test_a_wakeup_while_a_poll_returns_ends_the_next_one(shell: Shell) -> None:
    start_run = shell.engine.start_run

    def start_late(now_ms: float) -> None:
        shell.poller.wakeup()
        start_run(now_ms)

    shell.engine.start_run = start_late  # type: ignore[method-assign]
    shell.engine.slices = [(0, 4)]
    assert polled(shell).offset() == 0
    with pytest.raises(WakeupException):
        shell.poller.poll(0)


def test_messages_are_handed_back(shell: Shell) -> None:
    shell.poller.hand_back([*messages_of(COLUMNS, 4, 6), ErrorMessage(KafkaError(KafkaError._PARTITION_EOF))])
    assert shell.engine.sought == [(T0, OffsetAndMetadata(4, 0))]


def test_wakeup_needs_no_lock(shell: Shell) -> None:
    done = threading.Event()

    def wake() -> None:
        shell.poller.wakeup()
        done.set()

    with shell.use():
        threading.Thread(target=wake).start()
        assert done.wait(60)


class FakePoller:
    """Hands out messages with these values; a handed back one comes again."""

    def __init__(self, *values: bytes) -> None:
        data = bytes(encode_batch([Record(at, 0, None, value) for at, value in enumerate(values)]))
        (columns,) = decode_plain(FetchedRecords(TopicPartition("t", 0), 0, 9, memoryview(data)))
        self.left: list[Message] = messages_of(columns, 0, len(values))  # type: ignore[arg-type]
        self.in_hand: list[int] = []

    def poll(self, timeout: float | None, in_hand: int = 0) -> Message | None:
        self.in_hand.append(in_hand)
        return self.left.pop(0) if self.left else None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def hand_back(self, messages: list[Message]) -> None:
        self.left[:0] = messages


def number(data: bytes | None, context: Any) -> int:
    return int(data or b"")


def processing(poller: FakePoller, *interceptors: Any, deserializer: Any = number) -> MessageProcessing:
    return MessageProcessing(poller, Deserializers(value=deserializer), Interceptors(interceptors))  # type: ignore[arg-type]


@pytest.mark.conformance("FetcherTest.testFetchedRecordsRaisesOnSerializationErrors")
def test_messages_before_one_that_cannot_be_deserialised_come_first() -> None:
    poller = FakePoller(b"1", b"2", b"x", b"4")
    made = processing(poller)
    assert [each.value() for each in made.consume(9, 0)] == [1, 2]
    with pytest.raises(ValueDeserializationError) as raised:
        made.consume(9, 0)
    assert raised.value.kafka_message.offset() == 2
    assert [each.value() for each in made.consume(9, 0)] == [4]
    assert poller.in_hand == [0, 1, 2, 0, 0, 1], "what is in hand is not processed yet"


def test_poll_raises_and_goes_on_behind_the_message() -> None:
    made = processing(FakePoller(b"x", b"4"))
    with pytest.raises(ValueDeserializationError):
        made.poll(0)
    message = made.poll(0)
    assert message is not None
    assert message.value() == 4
    assert made.poll(0) is None


def test_errors_in_the_place_of_a_message_pass() -> None:
    poller = FakePoller(b"1")
    poller.left = [ErrorMessage(KafkaError(KafkaError._PARTITION_EOF))]
    (message,) = processing(poller).consume(1, None)
    assert message.error() == KafkaError._PARTITION_EOF


class Even:
    """Lets even numbers through."""

    def on_consume(self, messages: list[Message]) -> list[Message]:
        return [each for each in messages if int(each.value() or 0) % 2 == 0]


@pytest.mark.parametrize("where", ["deserializer", "interceptor"])
def test_messages_of_an_interrupted_call_come_again(where: str) -> None:
    def deserialize(data: bytes | None, context: Any) -> int:
        if where == "deserializer" and data == b"2":
            raise KeyboardInterrupt
        return number(data, context)

    class Interceptor:
        def on_consume(self, messages: list[Message]) -> None:
            raise KeyboardInterrupt

    poller = FakePoller(b"1", b"2", b"3")
    made = processing(poller, Interceptor(), deserializer=deserialize)
    with pytest.raises(KeyboardInterrupt):
        made.consume(3, 0)
    assert [each.offset() for each in poller.left] == [0, 1, 2]


def test_poll_goes_on_to_the_next_message_that_the_interceptors_let_through() -> None:
    made = processing(FakePoller(b"1", b"3", b"4", b"5"), Even())
    message = made.poll(None)
    assert message is not None
    assert message.value() == 4
    assert made.poll(0) is None


def test_interceptors_alone_get_what_is_consumed_at_once() -> None:
    made = processing(FakePoller(b"1", b"2", b"4"), Even(), deserializer=None)
    assert [each.value() for each in made.consume(3, 0)] == [b"2", b"4"]


def test_few_records_are_taken_of_the_run(shell: Shell) -> None:
    shell.engine.slices = [(0, 9)]
    assert offsets(shell.poller.consume(3, 60)) == [0, 1, 2]
    uses = shell.uses
    run = shell.engine.run
    assert [offsets(shell.poller.consume(3, 60)) for _ in range(2)] == [[3, 4, 5], [6, 7, 8]]
    assert (shell.uses, len(run.rows)) == (uses, 0), "without the lock"


def test_a_run_that_ends_under_the_call_is_taken_back(shell: Shell) -> None:
    class Ending(deque[int]):
        def __delitem__(self, row: Any) -> None:
            super().__delitem__(row)
            self.clear()

    shell.engine.slices = [(0, 9)]
    shell.poller.consume(3, 60)
    shell.engine.run.rows = Ending(shell.engine.run.rows)
    shell.poller.consume(3, 60)
    assert shell.engine.sought == [(T0, OffsetAndMetadata(3, 0))]
