"""`poll()` and `consume()`: records one at a time, through deserialisers and interceptors.

How the application gets records: `poll` one, `consume` many, both with what is due in between, and `wakeup` to end their waiting.

Most polls take a record of the engine's run, without the lock. All others run callbacks, raise failures, take what is there, and wait.

Messages of consumers that have deserialisers or interceptors: both run in the application's thread, without the lock of the engine.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Protocol

from ottla.client.consumer.conversions import event_message
from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.driver import Driver
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.kafka_errors import ConsumeError, KafkaError, KafkaException, WakeupException
from ottla.client.consumer.message import NEW_MESSAGE, Message, messages_of
from ottla.client.engine.engine import Engine
from ottla.client.engine.record_buffer import UndecodableRecords
from ottla.client.engine.values import OffsetAndMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


class Taken(Protocol):
    """What one call of the application gets."""

    @property
    def has_records(self) -> bool:
        """Whether the application gets something, which an exception would lose."""

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing to wait for."""

    def take(self, engine: Engine) -> None:
        """Take what is there. Raises KafkaException only while there are no records."""


class TakenMessages:
    """Up to `count` messages; `in_hand`: so many that the application gets by the same call were taken before."""

    def __init__(self, count: int, in_hand: int = 0) -> None:
        self.messages: list[Message] = []
        self._count = count
        self._in_hand = in_hand

    @property
    def has_records(self) -> bool:
        return bool(self.messages or self._in_hand)

    @property
    def is_complete(self) -> bool:
        return len(self.messages) >= self._count

    def take(self, engine: Engine) -> None:
        """Events come before records."""
        self.messages += map(event_message, engine.take_events(self._count - len(self.messages)))
        slices = take_records(engine, self._count - len(self.messages), has_records=self.has_records)
        if slices is None:
            self._count = 0
            return
        for part in slices:
            self.messages += messages_of(part.columns, part.first, part.end)


def take_records(engine: Engine, count: int, *, has_records: bool, enough: int | None = None) -> list[Any] | None:
    """Slices of the engine. Records that cannot be read are a KafkaException, but None with `has_records`: the error comes again."""
    try:
        return engine.take(count, enough=enough)
    except UndecodableRecords as error:
        if has_records:
            return None
        raise KafkaException(KafkaError(KafkaError._BAD_MSG, str(error))) from error


class Poller:
    """Takes records for the application's thread.

    `use` gives the engine to one thread, with positions that are right; `run_callbacks` runs what is due at a time, and says whether there
    was something; `raise_failures` raises what has failed, and the failure that it is given.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        *,
        use: Callable[[], AbstractContextManager[None]],
        run_callbacks: Callable[[float], bool],
        raise_failures: Callable[[ErrorCode | Exception | None], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._use = use
        self._run_callbacks = run_callbacks
        self._raise_failures = raise_failures
        self._is_woken = False

    def poll(self, timeout: float | None = None, in_hand: int = 0) -> Message | None:
        """The next message, event or error; None after `timeout` seconds (None or negative: no limit)."""
        run = self._engine.run
        now_ms = time.monotonic() * 1000
        if now_ms < run.ends_ms:
            try:
                row = run.rows.popleft()
            except IndexError:
                run.ends_ms = -inf
            else:
                run.polled_ms = now_ms
                # What `Message(run.columns, row)` does, in half of its time.
                message: Message = NEW_MESSAGE(Message)
                message._columns = run.columns  # type: ignore[assignment]
                message._row = row
                return message
        taken = TakenMessages(1, in_hand)
        self.collect(taken, timeout, starts_run=True)
        return taken.messages[0] if taken.messages else None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        """Up to `count` messages."""
        taken = TakenMessages(count)
        self.collect(taken, timeout)
        return taken.messages

    def collect(self, taken: Taken, timeout: float | None, *, starts_run: bool = False) -> None:
        """Take until that is complete or `timeout` seconds are over (None or negative: no limit).

        `starts_run`: the next records may be taken without the lock.
        """
        driver, engine = self._driver, self._engine
        ends_ms = driver.now_ms() + timeout * 1000 if timeout is not None and timeout >= 0 else None
        with self._use():
            try:
                self._collect(taken, ends_ms)
            finally:
                ended_ms = driver.now_ms()
                engine.evidence.polls.ended(ended_ms)
            if starts_run and taken.is_complete:
                engine.start_run(ended_ms)
                if self._is_woken:
                    engine.run.ends_ms = -inf

    def _collect(self, taken: Taken, ends_ms: float | None) -> None:
        driver, engine = self._driver, self._engine
        while True:
            now_ms = driver.now_ms()
            if taken.has_records and self._is_interrupted():
                return
            self.raise_wakeup()
            self._raise_failures(engine.poll(now_ms, is_processed=not taken.has_records))
            if self._run_callbacks(now_ms):
                continue
            taken.take(engine)
            if engine.has_fetches_due:
                driver.wake()
            if taken.is_complete:
                return
            wait_ms = engine.idle_ms(now_ms, has_records=taken.has_records)
            if ends_ms is not None:
                wait_ms = min(wait_ms, ends_ms - now_ms)
            if wait_ms <= 0:
                return
            if not engine.has_records():  # otherwise positions moved behind offsets that hold none
                driver.wake()
                driver.condition.wait(wait_ms / 1000)

    def _is_interrupted(self) -> bool:
        """Whether the application has to get what was taken before something else happens: it would be lost, or committed unprocessed."""
        driver, engine = self._driver, self._engine
        has_failed = driver.failure is not None or driver.refusal is not None or engine.membership.failure is not None
        return self._is_woken or has_failed or engine.rebalances.is_due

    def wakeup(self) -> None:
        """Let the call that waits raise WakeupException, or the next one. For any thread, and for handlers of signals: it takes no lock."""
        self._is_woken = True
        self._engine.run.ends_ms = -inf
        self._driver.notify()

    def raise_wakeup(self) -> None:
        """Raise WakeupException once after `wakeup`."""
        if self._is_woken:
            self._is_woken = False
            raise WakeupException

    def hand_back(self, message: Message) -> None:
        """Hand out a message again: it was taken last of its partition, and the application did not get it."""
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        epoch = message.leader_epoch()
        start = OffsetAndMetadata(message.offset() or 0, -1 if epoch is None else epoch)
        with self._use():
            state = self._engine.subscriptions.partitions.get(partition)
            if state is None or state.position is None:
                return
            stored = state.stored
            self._engine.seek(partition, start)
            state.stored = None if stored is None else start
        self._driver.wake()


class MessageProcessing:
    """Takes messages of `poller`, deserialises them, and passes them to the interceptors."""

    def __init__(
        self, poller: Poller, deserializers: Deserializers, interceptors: Interceptors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._poller = poller
        self._deserializers = deserializers
        self._interceptors = interceptors
        self._clock = clock

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message that the interceptors let through. Raises KeyDeserializationError and ValueDeserializationError."""
        has_limit = timeout is not None and timeout >= 0
        ends = self._clock() + (timeout or 0)
        while True:
            messages = self.consume(1, max(ends - self._clock(), 0) if has_limit else None)
            if messages:
                return messages[0]
            if has_limit and self._clock() >= ends:
                return None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        """Up to `count` messages, before the interceptors. The error of a message is raised when it is the first one."""
        messages = self._deserialized(count, timeout) if self._deserializers else self._poller.consume(count, timeout)
        return self._interceptors.on_consume(messages) if messages else messages

    def _deserialized(self, count: int, timeout: float | None) -> list[Message]:
        has_limit = timeout is not None and timeout >= 0
        ends = self._clock() + (timeout or 0)
        messages: list[Message] = []
        while len(messages) < count:
            message = self._poller.poll(max(ends - self._clock(), 0) if has_limit else None, in_hand=len(messages))
            if message is None:
                break
            if message.error() is None:
                try:
                    self._deserializers.apply(message)
                except ConsumeError:
                    if not messages:
                        raise
                    self._poller.hand_back(message)
                    break
            messages.append(message)
        return messages
