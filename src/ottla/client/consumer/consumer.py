"""`ottla.Consumer`: confluent-kafka's consumer, in Python, by the classic protocol.

Its application's thread runs callbacks, takes records and commits; the network is the business of `driver`, in a thread of its own, and the
decisions are those of the engine (`client.engine`). What changes the engine is `_uninterrupted`: see `calls`.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from ottla.client.consumer import decoding
from ottla.client.consumer.calls import Calls
from ottla.client.consumer.conversions import (
    given,
    names_and_patterns,
    offset_of,
    one_regex,
    position_of,
    refusal_of,
    results_of,
    split_topics,
    starts,
    with_offsets,
)
from ottla.client.consumer.driver import Driver
from ottla.client.consumer.exchange import RANDOM, new_engine
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, exception
from ottla.client.consumer.lookups import ClusterMetadata, Lookups
from ottla.client.consumer.message import OFFSET_INVALID, Message, TopicPartition, encode_group_metadata, key, keys
from ottla.client.consumer.polling import MessageProcessing, Poller
from ottla.client.consumer.properties import parse_properties
from ottla.client.engine.commits import Commit
from ottla.client.engine.rebalances import Callback
from ottla.client.engine.values import OffsetAndMetadata
from ottla.client.errors import AuthenticationError
from ottla.client.network.connector import connect
from ottla.extras import require
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow

    from ottla.client.consumer.arrow_polling import TakenRecords

Listener = Callable[["Consumer", list[TopicPartition]], Any]
MESSAGES_MAX: Final = 1_000_000
"""Most messages of one `consume`, as in confluent-kafka."""
CLOSE_MS: Final = 30_000
_UNSUBSCRIBED: Final = "the consumer unsubscribed from all topics"
_CLOSED: Final = "the consumer is being closed"
P = ParamSpec("P")
T = TypeVar("T")


def _uninterrupted(method: "Callable[Concatenate[Consumer, P], T]") -> "Callable[Concatenate[Consumer, P], T]":
    """A method in which no signal's handler raises: it ends, even if the application does not wait for it any more."""

    @wraps(method)
    def call(self: "Consumer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._calls.run(lambda: method(self, *args, **kwargs))

    return cast("Callable[Concatenate[Consumer, P], T]", call)


class Consumer:
    """A consumer of a group. `config`: properties by Kafka's or librdkafka's names; `group.id` and `bootstrap.servers` must be among them.

    For one thread at a time. Raises ValueError without a group, and KafkaException for a property that is unknown, wrong or not
    supported. Methods raise KafkaException, and RuntimeError after `close`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **more: Any) -> None:
        if not isinstance(config, Mapping | None) or not (config or more):
            raise TypeError("expected configuration dict")
        properties = {**(config or {}), **more}
        try:
            parsed = parse_properties(properties)
        except ValueError as error:
            if str(error).startswith("group.id"):
                raise ValueError(f"Failed to create consumer: {error}") from error
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
        self._properties = parsed
        self._lookups = Lookups(parsed)
        self._listeners: dict[str, Listener | None] = {}
        self._in_callback: str | None = None
        self._due: Callable[[], Any] | None = None
        self._is_closed = self._is_over = False
        engine = new_engine(parsed.consumer, parsed.assignors, decoding.decoder())
        self._engine = engine
        self._driver = Driver(engine, parsed.client, connect=connect, rng=RANDOM.random, reporting=parsed.reporting)
        self._condition = self._driver.condition
        self._calls = Calls(self._driver.lock, self._driver.notify)
        self._poller = Poller(
            engine,
            self._driver,
            self._calls,
            use=self._use,
            find_callback=self._find_callback,
            run_callback=self._run_callback,
            raise_failures=self._raise_failures,
        )
        is_plain = not (parsed.deserializers or parsed.interceptors)
        self._records = self._poller if is_plain else MessageProcessing(self._poller, parsed.deserializers, parsed.interceptors)
        self._driver.start()
        self._calls.start()

    def __repr__(self) -> str:
        return f"<Consumer {self._engine.described()}{', closed' if self._is_closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        """Every message, endlessly; errors are raised as KafkaException, ends of partitions are left out."""
        while True:
            message = self.poll()
            try:
                error = None if message is None else message.error()
            except BaseException:  # of a signal's handler
                self._poller.hand_back([] if message is None else [message])
                raise
            if error is not None and error != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if message is not None and error is None:
                yield message

    # Subscriptions and assignments.

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
        **_: Any,
    ) -> None:
        """Subscribe to topics, and to patterns: names that begin with "^". The listeners are called by `poll` and `consume`.

        With group.protocol=consumer the coordinator knows what a pattern matches: in RE2's syntax, and the whole name of a topic.

        Without `on_lost`, `on_revoke` gets lost partitions, too.
        """
        for name, listener in {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}.items():
            if listener is not None and not callable(listener):
                raise TypeError(f"{name} expects a callable")
        listeners = {"assigned": on_assign, "revoked": on_revoke, "lost": on_lost or on_revoke}
        if self._properties.consumer.group.is_consumer_protocol:
            names, texts = names_and_patterns(topics)
            self._subscribe(listeners, names, [], one_regex(texts))
        else:
            self._subscribe(listeners, *split_topics(topics))
        self._driver.wake()

    @_uninterrupted
    def _subscribe(
        self, listeners: dict[str, Listener | None], topics: list[str], patterns: list[re.Pattern[str]], regex: str = ""
    ) -> None:
        with self._use():
            self._listeners = listeners
            self._engine.subscribe(topics, patterns, regex)

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group; the listeners are called."""
        self._leave()
        self._run_steps(self._driver.now_ms() + self._properties.consumer.api_timeout_ms)

    @_uninterrupted
    def _leave(self) -> None:
        with self._use():
            self._engine.leave(_UNSUBSCRIBED, self._driver.now_ms())

    @_uninterrupted
    def assign(self, partitions: Sequence[Any]) -> None:
        """Read exactly these partitions, from their offsets (without one: from the committed offset)."""
        with self._use():
            self._engine.assign(starts(partitions), is_ready=self._in_callback is None)
        self._driver.wake()

    @_uninterrupted
    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        """Read these partitions, too. In `on_assign` they may be those that it gets, with other offsets."""
        with self._use():
            known = [each for each in keys(partitions) if each in self._engine.subscriptions.partitions]
            if known and self._in_callback is None:
                text = f"{known[0].topic} [{known[0].partition}] is already part of the current assignment"
                raise KafkaException(KafkaError(KafkaError._CONFLICT, text))
            self._engine.incremental_assign(starts(partitions), is_ready=self._in_callback is None)
        self._driver.wake()

    @_uninterrupted
    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        """Read these partitions no more."""
        with self._use():
            for each in keys(partitions):
                if each not in self._engine.subscriptions.partitions:
                    text = f"{each.topic} [{each.partition}] can't be unassigned since it is not in the current assignment"
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
            self._engine.unassign(keys(partitions))

    @_uninterrupted
    def unassign(self) -> None:
        """Read no partition any more."""
        with self._use():
            self._engine.unassign(list(self._engine.subscriptions.partitions))

    @_uninterrupted
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are assigned now, each with the offset that it was assigned with (OFFSET_STORED where that was none)."""
        with self._use():
            return [TopicPartition(*each, state.start) for each, state in sorted(self._engine.subscriptions.partitions.items())]

    # Records.

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message, event or error; None after `timeout` seconds (None or negative: no limit). Runs callbacks."""
        return self._records.poll(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to `num_messages` messages, fewer only after `timeout` seconds (negative: no limit). Runs callbacks.

        `max.poll.records` bounds the number, where it is set.
        """
        if not 0 <= num_messages <= MESSAGES_MAX:
            raise ValueError(f"num_messages must be between 0 and {MESSAGES_MAX} (1M)")
        records_max = self._properties.records_max
        return self._records.consume(num_messages if records_max is None else min(num_messages, records_max), timeout)

    def poll_arrow(
        self, max_records: int | None = None, timeout: float | None = None, *, include_headers: bool = False
    ) -> "pyarrow.RecordBatch | None":
        """The next records as columns; None after `timeout` seconds (None or negative: no limit). Runs callbacks; raises errors.

        The columns are those of the Spark source: key, value, topic, partition, offset, timestamp and timestampType, and with
        `include_headers` headers. At most `max_records` (default: max.poll.records, or 16,384). Deserialisers and interceptors do not see
        them. Raises MissingExtraError without the extra `arrow`.
        """
        require("arrow")
        count = max_records or self._properties.records_max
        if count is not None and count < 0:
            raise ValueError(f"max_records must be positive, not {max_records}")
        taken = self._taken_records(count, include_headers=include_headers)
        self._poller.collect(taken, timeout)
        batch = taken.batch()
        self._poller.confirm()
        return batch

    @_uninterrupted
    def _taken_records(self, count: int | None, *, include_headers: bool) -> "TakenRecords":
        # The import takes a second, and would swallow what a signal's handler raises.
        from ottla.client.consumer.arrow_polling import ROWS_MAX, TakenRecords

        return TakenRecords(count or ROWS_MAX, include_headers=include_headers)

    def wakeup(self) -> None:
        """Let the call that waits raise WakeupException, or the next one: a poll, or a commit that is waited for (Java's method).

        For other threads and handlers of signals.
        """
        self._poller.wakeup()

    @_uninterrupted
    def seek(self, partition: Any) -> None:
        """Continue an assigned partition at the offset of `partition`."""
        with self._use():
            is_known = key(partition).topic in self._engine.cluster.partitions
            code = KafkaError._STATE if is_known else KafkaError._UNKNOWN_PARTITION
            self._check_assigned([key(partition)], f"Failed to seek to offset {partition.offset}", code)
            self._engine.seek(key(partition), offset_of(partition))
        self._driver.wake()

    def pause(self, partitions: Sequence[Any]) -> None:
        """Hand out no messages of these partitions until `resume`; those that are not assigned are left out."""
        self._pause(partitions, True)

    def resume(self, partitions: Sequence[Any]) -> None:
        """End `pause`."""
        self._pause(partitions, False)

    @_uninterrupted
    def _pause(self, partitions: Sequence[Any], is_paused: bool) -> None:
        with self._use():
            assigned = self._engine.subscriptions.partitions
            self._engine.pause([each for each in keys(partitions) if each in assigned], is_paused)
        self._driver.wake()

    # Offsets.

    def commit(
        self, message: Any = None, offsets: Sequence[Any] | None = None, asynchronous: bool = True, timeout: float | None = None
    ) -> list[TopicPartition] | None:
        """Commit the offset behind `message`, or `offsets`, or all stored offsets. Asynchronously it returns None at once.

        Otherwise it returns the partitions, each with its `error`, after at most `timeout` seconds (None: default.api.timeout.ms). Raises
        KafkaException when nothing was committed, with `_TIMED_OUT` where that is not known: the coordinator may still answer.
        """
        wanted = given(message, offsets)
        self._check_open()
        found = self._uncommitted() if wanted is None else with_offsets(wanted)
        if not found and not asynchronous:
            raise exception(KafkaError._NO_OFFSET, "Commit failed")
        ends_ms = self._driver.now_ms() + (self._properties.consumer.api_timeout_ms if timeout is None else timeout * 1000)
        is_waited_for = not asynchronous
        if is_waited_for:
            self._poller.raise_wakeup()  # before anything is sent: the answer may be there before it is waited for
        commit = Commit(
            found, retry_until_ms=ends_ms if is_waited_for else None, outlasts_rebalances=is_waited_for, is_reported=asynchronous
        )
        with self._driver.lock:
            self._engine.commits.commit(commit)
        self._driver.wake()
        if asynchronous:
            return None
        self._wait_for(commit, None if timeout is None else ends_ms)
        self._intercept(commit)
        results = results_of(commit)
        if all(each.error is not None for each in results):
            raise KafkaException(KafkaError(commit.error, f"Commit failed: {KafkaError(commit.error).str()}"))
        return results

    @_uninterrupted
    def _uncommitted(self) -> dict[model.TopicPartition, OffsetAndMetadata]:
        with self._use():
            return self._engine.subscriptions.uncommitted()

    @_uninterrupted
    def _wait_for(self, commit: Commit, ends_ms: float | None) -> None:
        with self._condition:
            while not (commit.is_done or self._calls.is_abandoned):
                self._poller.raise_wakeup()
                self._raise_driver_failure()
                wait_ms = 1_000.0 if ends_ms is None else ends_ms - self._driver.now_ms()
                if wait_ms <= 0:
                    raise exception(KafkaError._TIMED_OUT, "Commit failed")
                self._condition.wait(wait_ms / 1000)

    def store_offsets(self, message: Any = None, offsets: Sequence[Any] | None = None) -> None:
        """Store the offset behind `message`, or `offsets`, for the next commit. Needs enable.auto.offset.store=false."""
        wanted = given(message, offsets)
        if wanted is None:
            raise ValueError("expected either message or offsets")
        self._check_open()
        with self._driver.lock:  # each offset is one step
            if self._properties.consumer.stores_offsets:
                raise exception(KafkaError._INVALID_ARG, "StoreOffsets failed (enable.auto.offset.store must be false)")
            self._check_assigned(list(wanted), "StoreOffsets failed", KafkaError._STATE)
            for partition, offset in wanted.items():
                self._engine.subscriptions.partitions[partition].stored = offset

    @_uninterrupted
    def position(self, partitions: Sequence[Any]) -> list[TopicPartition]:
        """The offset of the next message of each partition, OFFSET_INVALID where it is not known."""
        with self._use():
            assigned = self._engine.subscriptions.partitions
            return [position_of(each, assigned.get(each)) for each in keys(partitions)]

    @_uninterrupted
    def lag(self) -> dict[TopicPartition, int | None]:
        """How many offsets each assigned partition has behind its position, as the last fetch saw it; None before that.

        The end is the last stable offset with isolation.level=read_committed, else the high watermark (Java: `currentLag`). It requests
        nothing.
        """
        is_read_committed = self._engine.settings.fetch.is_read_committed
        with self._use():
            states = sorted(self._engine.subscriptions.partitions.items())
            return {TopicPartition(*partition): state.lag(is_read_committed=is_read_committed) for partition, state in states}

    def committed(self, partitions: Sequence[Any], timeout: float | None = None) -> list[TopicPartition]:
        """The committed offset of each partition, OFFSET_INVALID where there is none."""
        self._check_open()
        return self._lookups.committed(partitions, timeout)

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float | None = None) -> list[TopicPartition]:
        """The first offset at or after the time (milliseconds since 1970) in each partition's `offset`; OFFSET_END where there is none."""
        self._check_open()
        return self._lookups.offsets_for_times(partitions, timeout)

    def get_watermark_offsets(self, partition: Any, timeout: float | None = None, cached: bool = False) -> tuple[int, int] | None:
        """The first offset of a partition and the one behind its end; `cached`: as the last fetch had them, OFFSET_INVALID before it."""
        self._check_open()
        return self._cached_watermarks(partition) if cached else self._lookups.watermarks(partition, timeout)

    @_uninterrupted
    def _cached_watermarks(self, partition: Any) -> tuple[int, int]:
        with self._use():
            state = self._engine.subscriptions.partitions.get(key(partition))
            if state is None or state.high_watermark < 0:
                return OFFSET_INVALID, OFFSET_INVALID
            return state.log_start_offset, state.high_watermark

    # The cluster and the group.

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers and topics, or one of these."""
        self._check_open()
        return self._lookups.cluster(None if topic is None else [topic], timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        """The cluster's id."""
        self._check_open()
        return self._lookups.cluster([], timeout).cluster_id

    @_uninterrupted
    def memberid(self) -> str | None:
        """The member's id, None outside of the group."""
        with self._use():
            return self._engine.membership.member_id or None

    @_uninterrupted
    def generation_id(self) -> int:
        """The group's generation of which this is a member, -1 outside of the group (Java: `groupMetadata().generationId()`).

        With group.protocol=consumer it is the member's epoch.
        """
        with self._use():
            return self._engine.membership.generation

    @_uninterrupted
    def consumer_group_metadata(self) -> bytes:
        """The member as a transactional producer of confluent-kafka takes it (`send_offsets_to_transaction`)."""
        with self._use():
            membership = self._engine.membership
            group = self._properties.consumer.group
            return encode_group_metadata(group.group_id, membership.generation, membership.member_id, group.instance_id)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """User and password, for PLAIN and SCRAM, of all connections that are opened from now on."""
        for value in (username, password):
            if not isinstance(value, str):
                raise TypeError(f"username and password must be str, not {type(value).__name__}")
        self._check_open()
        self._driver.links.set_credentials(username, password)
        self._lookups.set_credentials(username, password)

    @_uninterrupted
    def metrics(self) -> dict[str, float]:
        """All metrics by name (docs/consumer.md); times in milliseconds, NaN where there is no value yet."""
        with self._use():
            return self._driver.metrics()

    def close(self) -> None:
        """Commit (with enable.auto.commit), give up all partitions, leave the group, and close all connections."""
        if self._is_over:
            return
        try:
            ends_ms = self._driver.now_ms() + CLOSE_MS
            if not self._is_closed and self._driver.failure is None and self._driver.refusal is None:
                self._begin_close()
                self._run_steps(ends_ms)
        finally:
            # An interrupted close goes on when it is called again.
            self._is_closed = True
            self._stop()
            self._calls.stop()
            self._properties.interceptors.close()
            self._is_over = True

    @_uninterrupted
    def _begin_close(self) -> None:
        with self._use():
            self._engine.close(_CLOSED, self._driver.now_ms())

    @_uninterrupted
    def _stop(self) -> None:
        self._driver.stop()
        with self._condition:
            self._engine.settle()
            self._condition.notify_all()

    # What the methods share.

    @contextmanager
    def _use(self) -> Iterator[None]:
        """The engine for one thread, with positions behind what the application has got."""
        self._check_open()
        with self._condition:
            self._engine.settle()
            self._poller.take_back()
            yield

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("Consumer closed")

    def _run_steps(self, ends_ms: float) -> None:
        """Wait until partitions are given up and LeaveGroup is answered, and run the callbacks of this."""
        while self._take_steps(ends_ms):
            self._run_callback()

    @_uninterrupted
    def _take_steps(self, ends_ms: float) -> bool:
        """Whether a callback has to run before they go on."""
        driver = self._driver
        with self._condition:
            while driver.now_ms() < ends_ms and driver.failure is None and not self._calls.is_abandoned:
                if self._find_callback(driver.now_ms(), with_notices=False):
                    return True
                driver.wake()
                if driver.has_left:
                    break
                self._condition.wait(0.05)
        return False

    def _find_callback(self, now_ms: float, *, with_notices: bool = True) -> bool:
        """Whether a callback is due, for `_run_callback`. `with_notices`: one that no rebalance waits for, too."""
        while self._due is None and self._in_callback is None and (callback := self._engine.next_callback(now_ms)) is not None:
            self._driver.wake()
            listener = self._listeners.get(callback.kind)
            if listener is not None:
                self._due = partial(self._call, callback, listener)
        if self._due is None and with_notices:
            self._due = self._next_notice()
        if self._due is None and self._engine.commits.finished:
            if self._properties.on_commit is None and not self._properties.interceptors:
                self._engine.commits.finished.clear()
            else:
                self._due = self._run_commit_callbacks
        return self._due is not None

    def _run_callback(self) -> None:
        """Run the callback that is due, without the lock."""
        due, self._due = self._due, None
        if due is not None:
            due()

    def _call(self, callback: Callback, listener: Listener) -> None:
        self._in_callback = callback.kind
        try:
            listener(self, [TopicPartition(*each) for each in callback.partitions])
        finally:
            self._in_callback = None

    def _next_notice(self) -> Callable[[], Any] | None:
        """What calls error_cb, throttle_cb or stats_cb, if there is a notice for them."""
        monitor = self._driver.monitor
        notice = None if monitor is None or self._in_callback is not None else monitor.next_notice(time.time_ns() / 1e9)
        if notice is None:
            return None
        callback, argument = notice
        return partial(callback, argument)

    def _run_commit_callbacks(self) -> None:
        finished, on_commit = self._engine.commits.finished, self._properties.on_commit
        while finished:
            commit = finished.pop(0)
            self._intercept(commit)
            if on_commit is not None:
                on_commit(None if commit.error is ErrorCode.NONE else KafkaError(commit.error), results_of(commit))

    def _intercept(self, commit: Commit) -> None:
        committed = [each for each in results_of(commit) if each.error is None]
        if committed:
            self._properties.interceptors.on_commit(committed)

    def _raise_failures(self, failure: ErrorCode | Exception | None) -> None:
        self._raise_driver_failure()
        if isinstance(failure, ErrorCode):
            membership = self._engine.membership
            text = refusal_of(failure, self._properties.consumer.group) or membership.failure_text
            raise KafkaException(KafkaError(failure, text, fatal=membership.is_over))
        if failure is not None:
            raise KafkaException(KafkaError(KafkaError._FAIL, str(failure))) from failure

    def _raise_driver_failure(self) -> None:
        self._check_open()  # a handler of a signal may have closed it
        driver = self._driver
        if driver.failure is not None:
            raise KafkaException(
                KafkaError(KafkaError._FATAL, f"the consumer's thread has ended: {driver.failure!r}", fatal=True)
            ) from driver.failure
        if driver.refusal is not None:
            refusal, driver.refusal = driver.refusal, None
            if isinstance(refusal, AuthenticationError) and self._properties.reporting.error_cb is not None:
                return  # it is told, as by librdkafka, and the consumer tries again
            code = KafkaError._AUTHENTICATION if isinstance(refusal, AuthenticationError) else KafkaError._FAIL
            raise KafkaException(KafkaError(code, str(refusal))) from refusal

    def _check_assigned(self, partitions: Sequence[model.TopicPartition], what: str, code: int) -> None:
        if any(each not in self._engine.subscriptions.partitions for each in partitions):
            raise exception(code, what)
