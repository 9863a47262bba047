"""How the application gets records: `poll` one, `consume` many, both with what is due in between, and `wakeup` to end their waiting.

Most polls take a record of the engine's run, without the lock. All others run callbacks, raise failures, take what is there, and wait.
Deserialisers and interceptors run in the application's thread, without the lock of the engine. An exception that a signal's handler raises
may end a call at any point: what that call has taken is handed out by a later one.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from math import inf
from typing import Any, cast

from ottla.client.consumer.calls import Calls
from ottla.client.consumer.conversions import event_message
from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.driver import Driver
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.kafka_errors import ConsumeError, KafkaError, KafkaException, WakeupException
from ottla.client.consumer.message import NEW_MESSAGE, Message, MessageColumns, messages_of
from ottla.client.engine.engine import Engine
from ottla.client.engine.record_buffer import NO_RUN, ROWS_MAX, Columns, RecordRun, Slice, UndecodableRecords
from ottla.client.engine.values import Event, OffsetAndMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


class Taken(ABC):
    """What one call of the application gets. `take_back` needs the events and, of each partition, the offset of the first record."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self.starts: dict[TopicPartition, OffsetAndMetadata] = {}
        self.run = NO_RUN
        self.run_ends_ms = -inf

    @property
    @abstractmethod
    def has_records(self) -> bool:
        """Whether the application gets something, which an exception would lose."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether there is nothing to wait for."""

    @abstractmethod
    def take(self, engine: Engine) -> None:
        """Take what is there. Raises KafkaException only while there are no records."""

    def take_back(self, engine: Engine) -> None:
        """Undo that, under the lock, with positions that are right."""
        engine.take_back(self._events, self.starts)
        self._events, self.starts = [], {}

    def take_events(self, engine: Engine, count: int) -> list[Event]:
        """At most `count` events of the engine."""
        events = engine.take_events(count)
        self._events += events
        return events

    def take_records(self, engine: Engine, count: int, *, has_records: bool, enough: int | None = None) -> list[Slice] | None:
        """Slices of the engine. Records that cannot be read are a KafkaException, but None with `has_records`: the error comes again."""
        try:
            slices = engine.take(count, enough=enough)
        except UndecodableRecords as error:
            if has_records:
                return None
            raise KafkaException(KafkaError(KafkaError._BAD_MSG, str(error))) from error
        for part in slices:
            if part.end > part.first:
                self.start(part.partition, part.columns, part.first)
        return slices

    def start(self, partition: TopicPartition, columns: Columns, first: int) -> None:
        """Records of a partition are taken from row `first` on."""
        if partition not in self.starts:
            self.starts[partition] = OffsetAndMetadata(columns.offset(first), columns.leader_epoch(first))


class TakenMessages(Taken):
    """Up to `count` messages; `in_hand`: so many that the application gets by the same call were taken before."""

    def __init__(self, count: int, in_hand: int = 0) -> None:
        super().__init__()
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
        self.messages += map(event_message, self.take_events(engine, self._count - len(self.messages)))
        slices = self.take_records(engine, self._count - len(self.messages), has_records=self.has_records)
        if slices is None:
            self._count = 0
            return
        for part in slices:
            columns: Any = part.columns
            self.messages += messages_of(columns, part.first, part.end)

    def take_back(self, engine: Engine) -> None:
        """Undo `take`."""
        super().take_back(engine)
        self.messages.clear()


class Poller:
    """Takes records for the application's thread.

    `use` gives the engine to one thread, with positions that are right; `find_callback` finds what is due at a time, and `run_callback`
    runs it without the lock; `raise_failures` raises what has failed, and the failure that it is given.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        calls: Calls,
        *,
        use: Callable[[], AbstractContextManager[None]],
        find_callback: Callable[[float], bool],
        run_callback: Callable[[], None],
        raise_failures: Callable[[ErrorCode | Exception | None], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._calls = calls
        self._use = use
        self._find_callback = find_callback
        self._run_callback = run_callback
        self._raise_failures = raise_failures
        self._is_woken = False
        # What the application has not got yet. In the thread of a call that returns, nothing interrupts between the step that forgets it
        # and the next one of the application.
        self._unconfirmed: Taken | None = None

    def poll(self, timeout: float | None = None, in_hand: int = 0) -> Message | None:
        """The next message, event or error; None after `timeout` seconds (None or negative: no limit)."""
        run = self._engine.run
        now_ms = time.monotonic() * 1000
        if now_ms < run.ends_ms:
            rows = run.rows
            try:
                row = rows[0]
                # What `Message(run.columns, row)` does, in half of its time.
                message: Message = NEW_MESSAGE(Message)
                message._columns = run.columns  # type: ignore[assignment]
                message._row = row
                run.polled_ms = now_ms
                del rows[0]  # no call: a signal's handler runs before it, or after the application has the message
                return message
            except IndexError:
                run.ends_ms = -inf
        taken = TakenMessages(1, in_hand)
        self.collect(taken, timeout, starts_run=True)
        messages, run = taken.messages, taken.run
        self._unconfirmed = None
        if run is not NO_RUN and not self._is_woken:
            run.ends_ms = taken.run_ends_ms
        return messages[0] if messages else None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        """Up to `count` messages."""
        if count == 1:
            message = self.poll(timeout)
            return [] if message is None else [message]
        run = self._engine.run
        now_ms = time.monotonic() * 1000
        ends_ms = run.ends_ms
        if now_ms < ends_ms and len(run.rows) >= count:
            run.ends_ms = -inf  # for a call that comes after an interrupt in this one
            taken = TakenMessages(count)
            messages = self._of_run(run, taken, count)
            if messages and taken.starts:  # otherwise all is taken back, here or by a signal's handler
                run.polled_ms = now_ms
                self._unconfirmed = None
                if not self._is_woken:
                    run.ends_ms = ends_ms
                return messages
        taken = TakenMessages(count)
        self.collect(taken, timeout, starts_run=2 * count <= ROWS_MAX)
        messages, run = taken.messages, taken.run
        self._unconfirmed = None
        if run is not NO_RUN and not self._is_woken:
            run.ends_ms = taken.run_ends_ms
        return messages

    def _of_run(self, run: RecordRun, taken: TakenMessages, count: int) -> list[Message]:
        """So many messages of the run, unconfirmed; none where it ends meanwhile."""
        rows, number = run.rows, 0
        try:
            first = rows[0]
            taken.start(run.partition, run.columns, first)
            self._unconfirmed = taken
            while number < count:
                del rows[0]
                number += 1
        except IndexError:
            return []
        return messages_of(cast("MessageColumns", run.columns), first, first + count)

    def confirm(self) -> None:
        """The application gets what `collect` has taken: the last step of a call."""
        self._unconfirmed = None

    def take_back(self) -> None:
        """Undo what an interrupted call has taken, or one that goes on when a signal's handler is over."""
        if self._unconfirmed is not None:
            self._unconfirmed.take_back(self._engine)

    def collect(self, taken: Taken, timeout: float | None, *, starts_run: bool = False) -> None:
        """Take until that is complete or `timeout` seconds are over (None or negative: no limit).

        `starts_run`: the next records may be taken without the lock, once the caller has `taken.run` begin. Until it confirms, the call may
        be interrupted, and what was taken is taken back.
        """
        driver = self._driver
        ends_ms = driver.now_ms() + timeout * 1000 if timeout is not None and timeout >= 0 else None
        while self._calls.run(lambda: self._collect(taken, ends_ms, starts_run=starts_run)):
            self._unconfirmed = None  # what the callback calls takes nothing back
            try:
                self._run_callback()
            finally:
                self._unconfirmed = taken

    def _collect(self, taken: Taken, ends_ms: float | None, *, starts_run: bool) -> bool:
        """Whether a callback has to run before it goes on."""
        engine = self._engine
        if self._unconfirmed is taken:
            self._unconfirmed = None  # it goes on after a callback
        with self._use():
            self._unconfirmed = taken
            try:
                if self._take(taken, ends_ms):
                    return True
            except BaseException:
                self._unconfirmed = None  # the application gets the exception, and nothing was taken
                self._end_poll()
                raise
            ended_ms = self._end_poll()
            if starts_run and taken.is_complete:
                engine.start_run(ended_ms)
                if engine.run is not NO_RUN:
                    taken.run, taken.run_ends_ms = engine.run, engine.run.ends_ms
                    engine.run.ends_ms = -inf
        return False

    def _end_poll(self) -> float:
        ended_ms = self._driver.now_ms()
        self._engine.evidence.polls.ended(ended_ms)
        return ended_ms

    def _take(self, taken: Taken, ends_ms: float | None) -> bool:
        driver, engine = self._driver, self._engine
        while not self._calls.is_abandoned:
            now_ms = driver.now_ms()
            if taken.has_records and self._is_interrupted():
                return False
            self.raise_wakeup()
            self._raise_failures(engine.poll(now_ms, is_processed=not taken.has_records))
            if self._find_callback(now_ms):
                return True
            taken.take(engine)
            if engine.has_fetches_due:
                driver.wake()
            if taken.is_complete:
                return False
            wait_ms = engine.idle_ms(now_ms, has_records=taken.has_records)
            if ends_ms is not None:
                wait_ms = min(wait_ms, ends_ms - now_ms)
            if wait_ms <= 0:
                return False
            if not engine.has_records():  # otherwise positions moved behind offsets that hold none
                driver.wake()
                driver.condition.wait(wait_ms / 1000)
        return False

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

    def hand_back(self, messages: Iterable[Message]) -> None:
        """Hand out messages again: they were taken last of their partitions, and the application did not get them."""
        starts: dict[TopicPartition, OffsetAndMetadata] = {}
        for message in messages:
            if message.error() is None:
                epoch = message.leader_epoch()
                start = OffsetAndMetadata(message.offset() or 0, -1 if epoch is None else epoch)
                starts.setdefault(TopicPartition(message.topic() or "", message.partition() or 0), start)
        self._calls.run(lambda: self._hand_back(starts))
        self._driver.wake()

    def _hand_back(self, starts: dict[TopicPartition, OffsetAndMetadata]) -> None:
        with self._use():
            self._engine.take_back([], starts)


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
        try:
            return self._interceptors.on_consume(messages) if messages else messages
        except BaseException:
            self._poller.hand_back(messages)
            raise

    def _deserialized(self, count: int, timeout: float | None) -> list[Message]:
        has_limit = timeout is not None and timeout >= 0
        ends = self._clock() + (timeout or 0)
        messages: list[Message] = []
        message: Message | None = None
        try:
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
                        self._poller.hand_back([message])
                        break
                messages.append(message)
                message = None
        except ConsumeError:
            raise
        except BaseException:
            self._poller.hand_back([*messages, *([] if message is None else [message])])
            raise
        return messages
