"""Sending a task's rows: a whole Arrow batch as records, records to the producer, and every failure counted.

Columns, types and error messages are those of Spark's own Kafka sink (KafkaWriter). Senders have a producer each, and a worker keeps them
between tasks. A task ends when every record is acknowledged, or with the first failure, which names its record. All waiting is bounded: a
full queue and the last acknowledgements by delivery.timeout.ms, missing topics by max.block.ms. Written records stay: delivery is at least
once. In a transaction, readers of committed records see those of the tasks that have ended alone; such a sender is of one task.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from pyspark.sql.types import StructType

from ottla.spark.options.values import OptionError
from ottla.spark.sink.producer_settings import ProducerSettings

if TYPE_CHECKING:
    import pyarrow as pa


ANYWHERE: Final = -1
"""The partition number with which the partitioner chooses."""

_NOW: Final = 0
_KEY_SHOWN_MAX: Final = 32
_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"

ProduceArguments = tuple[str, bytes | None, bytes | None, int, None, None, int, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition, None, None, time in ms since 1970 (0: now), headers: `Producer.produce`, in its order."""


class RowError(Exception):
    """A row that cannot be written: the message names it, and says what to do."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises OptionError when rows of `schema` cannot be written; `topic` is the option of that name. Other columns are ignored."""
    types = {field.name: field.dataType.simpleString() for field in reversed(schema.fields)}
    if topic is None:
        if "topic" not in types:
            raise OptionError("topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.")
        _check_type(types, "topic", ("string",))
    _check_type(types, "key", _BYTES)
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    _check_type(types, "value", _BYTES)
    _check_type(types, "headers", (_HEADERS,))
    _check_type(types, "partition", ("int",))


def _check_type(types: dict[str, str], name: str, allowed: tuple[str, ...]) -> None:
    found = types.get(name, allowed[0])
    if found.lower() not in allowed:
        raise OptionError(f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(allowed)}")


def produce_arguments(batch: "pa.RecordBatch", topic: str | None) -> Iterator[ProduceArguments]:
    """The rows in their order; all are checked first. Raises RowError."""
    keys, values = _bytes(batch, "key"), _bytes(batch, "value")
    topics = _topics(batch, topic, keys)
    partitions = _partitions(batch, topics, keys)
    headers = _headers(batch, topics, keys)
    callbacks = repeat(None, batch.num_rows)
    return zip(topics, values, keys, partitions, callbacks, repeat(None), repeat(_NOW), headers)


def topics_of(batch: "pa.RecordBatch", topic: str | None) -> set[str]:
    """The topics that a batch writes to."""
    if topic is not None:
        return {topic} if batch.num_rows else set()
    return {name for name in batch.column(_index(batch, "topic")).unique().to_pylist() if name is not None}


def shown(topic: object, partition: object, key: object) -> str:
    """A record in error messages: its topic and partition, and the beginning of its key."""
    where = "" if topic is None else f" for topic {topic}"
    if topic is not None and isinstance(partition, int) and partition != ANYWHERE:
        where = f" for partition {partition} of topic {topic}"
    if not isinstance(key, bytes):
        return f"a record without a key{where}"
    return f"the record with key {key[:_KEY_SHOWN_MAX]!r}{'...' if len(key) > _KEY_SHOWN_MAX else ''}{where}"


def _index(batch: "pa.RecordBatch", name: str) -> int:
    """The first column of that name: Spark's rows may have several."""
    return int(batch.schema.get_all_field_indices(name)[0])


def _column(batch: "pa.RecordBatch", name: str) -> "pa.Array | None":
    return batch.column(_index(batch, name)) if name in batch.schema.names else None


def _bytes(batch: "pa.RecordBatch", name: str) -> "list[bytes | None] | repeat[None]":
    import pyarrow as pa

    column = _column(batch, name)
    if column is None:
        return repeat(None)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # the same memory: a string is its UTF-8
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found


def _topics(batch: "pa.RecordBatch", topic: str | None, keys: Iterable[bytes | None]) -> "list[str] | repeat[str]":
    if topic is not None:
        return repeat(topic)
    column = batch.column(_index(batch, "topic"))
    found: list[str] = column.to_pylist()
    if column.null_count:
        key = _at(keys, found.index(None))  # type: ignore[arg-type]
        raise RowError(
            "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic. "
            f"It is {shown(None, None, key)}."
        )
    return found


def _partitions(batch: "pa.RecordBatch", topics: Iterable[str], keys: Iterable[bytes | None]) -> "list[int] | repeat[int]":
    column = _column(batch, "partition")
    if column is None:
        return repeat(ANYWHERE)
    found: list[int | None] = column.to_pylist()
    for row, partition in enumerate(found):
        if partition is not None and partition < 0:
            raise RowError(
                f"Invalid partition: {partition}. Partition number should always be non-negative or null. "
                f"It is that of {shown(_at(topics, row), None, _at(keys, row))}."
            )
    return [ANYWHERE if partition is None else partition for partition in found]


def _headers(
    batch: "pa.RecordBatch", topics: Iterable[str], keys: Iterable[bytes | None]
) -> "list[list[tuple[str, bytes | None]] | None] | repeat[None]":
    column = _column(batch, "headers")
    if column is None:
        return repeat(None)
    found: list[list[tuple[str, bytes | None]] | None] = []
    for row, headers in enumerate(column.to_pylist()):
        if headers is None:
            found.append(None)
            continue
        # By position, not by name: the names may be in capitals.
        pairs = [(None, None) if header is None else tuple(header.values()) for header in headers]
        if any(name is None for name, _ in pairs):
            raise RowError(f"A header has no key, in {shown(_at(topics, row), None, _at(keys, row))}: drop it, or give it one.")
        found.append(pairs)
    return found


def _at(column: Iterable[Any], row: int) -> Any:
    return column[row] if isinstance(column, list) else next(iter(column))


_WAITING_S: Final = 0.1
_FLUSH_S: Final = 1.0
_GRACE_MS: Final = 5_000
_ABORT_S: Final = 10.0
_LOST: Final = "returned NULL without setting an exception"
"""Python's words for a call of confluent-kafka's that has failed and lost the reason on the way."""
IDLE_MS_MAX: Final = 600_000
IDLE_MAX: Final = 8
UNKNOWN_TOPIC_MS_MAX: Final = 10_000
"""How long to wait for an unknown topic, which may be just being created, where max.block.ms allows more."""

_CONNECTED: Final = "in state UP"
"""In librdkafka's words for a connection that has failed: records may have been on their way."""

Clock = Callable[[], float]


class DeliveryError(Exception):
    """Records that were not written: the message says which, why, and what to do."""


class RecordSender:
    """One producer, used by one task after the other. `now_s` is a monotonic clock."""

    def __init__(self, settings: ProducerSettings, *, now_s: Clock = time.monotonic) -> None:
        self.settings = settings
        self.used_at_s = now_s()
        self._now_s = now_s
        self._failure: str | None = None
        self._partition_counts: dict[str, int] = {}
        self._needs_connection = False
        callbacks = {"on_delivery": self._delivered, "delivery.report.only.error": True, "logger": self}
        self._producer: Any = Producer({**dict(settings.properties), **callbacks})

    def begin(self) -> None:
        """Begin a task: forget the topics, since partitions may have been added, and what happened to connections meanwhile."""
        self._partition_counts.clear()
        self._needs_connection = False
        self._serve(self._producer.poll, 0)

    def need_connection(self) -> None:
        """Fail, in this task, where a connection is lost while records are on their way, instead of sending them again."""
        self._needs_connection = True

    def begin_transaction(self) -> None:
        """Take over the transactional id, which ends what an earlier task left open, and begin. Raises DeliveryError."""
        self._in_transaction(lambda: self._producer.init_transactions(self.settings.max_block_ms / 1000))
        self._in_transaction(self._producer.begin_transaction)

    def commit_transaction(self) -> None:
        """Commit what is acknowledged. Raises DeliveryError; where the answer was lost, the records may be committed all the same."""
        self._in_transaction(lambda: self._producer.commit_transaction(self.settings.delivery_timeout_ms / 1000))

    @property
    def _is_transactional(self) -> bool:
        return "transactional.id" in dict(self.settings.properties)

    def _in_transaction(self, call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaException as error:
            name = dict(self.settings.properties)["transactional.id"]
            why = f"the transaction of the transactional id {name} failed: {error.args[0].str()}"
            if error.args[0].code() == KafkaError._FENCED:
                why += (
                    ". Another attempt of this task has begun (turn off spark.speculation), another query has the same"
                    " transactionalIdPrefix, or the task took longer than kafka.transaction.timeout.ms"
                )
            raise DeliveryError(why) from error

    def check_topics(self, topics: Iterable[str]) -> None:
        """Check that topics exist and read their partition counts, once per task. Raises DeliveryError."""
        for topic in topics:
            if topic not in self._partition_counts:
                self._partition_counts[topic] = self._partitions(topic)

    def send_all(self, rows: Iterable[ProduceArguments]) -> int:
        """Queue rows in their order, waiting while the queue is full; returns how many. Raises DeliveryError."""
        produce, count = self._producer.produce, 0
        for row in rows:
            try:
                try:
                    produce(*row)
                except BufferError:
                    self._wait_and_send(row)
            except KafkaException as error:
                raise DeliveryError(self._reason(error.args[0], *_target(row), len(row[1] or b""))) from error
            count += 1
        self._serve(self._producer.poll, 0)
        self._raise_failure()
        return count

    def finish(self) -> None:
        """Wait until every record is acknowledged. Raises DeliveryError where for so long none is: a quota may make it slow."""
        until_s, before = self._deadline_s(), 0
        while left := self._serve(self._producer.flush, _FLUSH_S):
            self._raise_failure()
            if left < before:
                until_s = self._deadline_s()
            before = left
            if self._now_s() >= until_s:
                raise DeliveryError(f"{left} records were not acknowledged within {self.settings.delivery_timeout_ms / 1000:g} s")
        self._raise_failure()
        self.used_at_s = self._now_s()

    def fail(self, reason: str) -> None:
        """Record a failure from a callback; the first one counts."""
        self._failure = self._failure or reason

    def discard(self) -> None:
        """Discard unsent records after a failure, and abort its transaction. The sender cannot be used afterwards."""
        self._producer.purge()
        with suppress(DeliveryError):
            self._serve(self._producer.poll, 0)
        if self._is_transactional:
            with suppress(KafkaException):  # the next attempt, or the timeout, ends what cannot be aborted now
                self._producer.abort_transaction(_ABORT_S)

    def _deadline_s(self) -> float:
        return self._now_s() + (self.settings.delivery_timeout_ms + _GRACE_MS) / 1000

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            size = len(message.value() or b"")
            self.fail(self._reason(error, message.topic(), message.partition(), message.key(), size, is_from_broker=True))

    def log(self, _level: int, _pattern: str, facility: str, _client: str, words: str) -> None:
        """A line of librdkafka's log, which comes with a poll. Only those on connections count; what fails is raised."""
        is_lost = facility == "FAIL" and _CONNECTED in words
        if self._needs_connection and is_lost and len(self._producer):
            self.fail("a connection was lost while records were on their way, some of which may have been written")

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Call poll or flush. Raises DeliveryError for an error after which the producer sends nothing any more."""
        try:
            return call(seconds)
        except:  # noqa: E722 - a fatal error may come as a bare KafkaError, which is no exception: no class of an except clause matches it
            raised: object = sys.exc_info()[1]
            # Where delivery callbacks follow, they are called with the exception and fail, or lose it: SystemError.
            cause = raised.__cause__ or raised if isinstance(raised, SystemError) else raised
            error = cause.args[0] if isinstance(cause, KafkaException) else cause
            if not (isinstance(error, KafkaError) or (isinstance(error, SystemError) and _LOST in str(error))):
                raise
        # Outside of the except clause: Python would make what was raised the context of this exception.
        if isinstance(error, KafkaError):
            raise DeliveryError(f"the producer cannot continue: {error.str()}")
        if self._is_transactional:
            self._in_transaction(lambda: self._producer.abort_transaction(_ABORT_S))  # it fails with the error that was lost
        raise DeliveryError("the producer cannot continue after a fatal error, which its library did not hand over")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise DeliveryError(self._failure)

    def _wait_and_send(self, row: ProduceArguments) -> None:
        until_s = self._deadline_s()
        while True:
            self._serve(self._producer.poll, _WAITING_S)
            self._raise_failure()
            try:
                self._producer.produce(*row)
                return
            except BufferError as full:
                if self._now_s() >= until_s:
                    raise DeliveryError(f"the queue stayed full for {self.settings.delivery_timeout_ms / 1000:g} s") from full

    def _partitions(self, topic: str) -> int:
        began_s, block_ms = self._now_s(), self.settings.max_block_ms
        unknown_until_s = began_s + min(block_ms, UNKNOWN_TOPIC_MS_MAX) / 1000
        while True:
            try:
                answer_s = max(began_s + block_ms / 1000 - self._now_s(), _WAITING_S)
                found = self._producer.list_topics(topic, timeout=answer_s).topics[topic]
            except KafkaException as error:
                servers = self.settings.bootstrap_servers
                raise DeliveryError(
                    f"Topic {topic} not present in metadata after {block_ms} ms: no broker of {servers} answers ({error.args[0].str()})."
                    " Check kafka.bootstrap.servers, and security.protocol"
                ) from error
            if found.error is None and found.partitions:
                return len(found.partitions)
            code = KafkaError.LEADER_NOT_AVAILABLE if found.error is None else found.error.code()
            if code not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE):
                raise DeliveryError(f"cannot write to topic {topic!r}: {found.error.str()}")
            if self._now_s() >= unknown_until_s:
                raise DeliveryError(f"topic {topic} does not exist (waited {self._now_s() - began_s:.1f} s): create it first")
            self._producer.poll(_WAITING_S)

    def _reason(self, error: Any, topic: str, partition: Any, key: Any, size: int, *, is_from_broker: bool = False) -> str:
        what, properties = shown(topic, partition, key), dict(self.settings.properties)
        code = error.code()
        if code == KafkaError._UNKNOWN_PARTITION:
            count = self._partition_counts.get(topic, 0)
            return f"cannot write {what}: the topic has {count} partitions, counted from 0. Write to one of them, or add partitions first"
        if code == KafkaError.MSG_SIZE_TOO_LARGE and is_from_broker:
            return (
                f"cannot write {what}, whose value has {size} bytes: the broker takes no batch so large. Raise the topic's"
                " max.message.bytes; if records are much smaller than that, it is the batch: set kafka.batch.size below it"
            )
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return (
                f"cannot write {what}, whose value has {size} bytes: that is more than kafka.max.request.size,"
                f" {properties['message.max.bytes']} bytes. Raise it, and the topic's max.message.bytes where that is smaller"
            )
        if code == KafkaError._MSG_TIMED_OUT:
            return (
                f"{what} was not acknowledged within {self.settings.delivery_timeout_ms} ms (kafka.delivery.timeout.ms):"
                " the partition has no leader that answers, or the brokers are too slow"
            )
        return f"cannot write {what}: {error.str()}"


def _target(row: ProduceArguments) -> tuple[str, int, bytes | None]:
    return row[0], row[3], row[2]


class SenderPool:
    """The idle senders of a worker process: connections and producer ids outlive a task. One task at a time acquires one."""

    def __init__(self, make: Callable[[ProducerSettings], RecordSender] = RecordSender, now_s: Clock = time.monotonic) -> None:
        self._make = make
        self._now_s = now_s
        self._idle: dict[ProducerSettings, RecordSender] = {}

    def acquire(self, settings: ProducerSettings) -> RecordSender:
        """An idle sender with these settings, or a new one; it is the caller's until `release`."""
        oldest_s = self._now_s() - IDLE_MS_MAX / 1000
        self._idle = {each: sender for each, sender in self._idle.items() if sender.used_at_s > oldest_s}
        sender = self._idle.pop(settings, None) or self._make(settings)
        sender.begin()
        return sender

    def release(self, sender: RecordSender) -> None:
        """Put back a sender whose records are all acknowledged."""
        self._idle[sender.settings] = sender
        while len(self._idle) > IDLE_MAX:
            del self._idle[next(iter(self._idle))]


WORKER_SENDERS: Final = SenderPool()
"""The pool of this process; Spark ends workers after an idle minute."""
