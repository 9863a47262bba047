"""Messages and partitions in confluent-kafka's interface, and a member as bytes that its transactional producer reads.

Messages are light views on decoded columns; one that is made or changed by the application has fields of its own.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

from ottla.client.consumer.kafka_errors import KafkaError
from ottla.protocol import model

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001


class TopicPartition:
    """A partition; `offset` may be one of the OFFSET_ constants, `leader_epoch` is None where it is not known.

    Two are equal when topic and partition are.
    """

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
            raise TypeError(f"topic must be a text, partition and offset must be numbers, not {topic!r}, {partition!r} and {offset!r}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: Any = None

    def __eq__(self, other: object) -> bool:
        return bool(_key(self) == _key(other))

    def __lt__(self, other: Any) -> bool:
        return bool(_key(self) < _key(other))

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _key(each: Any) -> Any:
    return getattr(each, "topic", None), getattr(each, "partition", None)


def keys(partitions: Iterable[Any]) -> list[model.TopicPartition]:
    """Partitions of this client or of confluent-kafka, without offsets. Raises TypeError for something else."""
    return [key(each) for each in partitions]


def key(each: Any) -> model.TopicPartition:
    """A partition of this client or of confluent-kafka, without its offset."""
    topic, partition = getattr(each, "topic", None), getattr(each, "partition", None)
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError(f"expected a TopicPartition, not {each!r}")
    return model.TopicPartition(topic, partition)


_MAGIC: Final = b"CGMDv2:"


def encode_group_metadata(group_id: str, generation: int, member_id: str, instance_id: str | None) -> bytes:
    """Group, generation and member. The number is in the machine's own byte order, as librdkafka writes it."""
    texts = group_id.encode() + b"\0" + member_id.encode() + b"\0"
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return _MAGIC + struct.pack("=i", generation) + texts + instance


TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2
NEW_MESSAGE: Final = object.__new__


class Rows(Protocol):
    """A column: mostly a list, which costs less than a method."""

    def __getitem__(self, row: Any, /) -> Any: ...


class MessageColumns(Protocol):
    """Decoded records of one partition."""

    topic: str
    partition: int

    @property
    def keys(self) -> Rows: ...
    @property
    def values(self) -> Rows: ...
    @property
    def offsets(self) -> Sequence[Any]: ...
    def leader_epoch(self, row: int) -> int: ...
    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None: ...
    def timestamp(self, row: int) -> tuple[int, int]: ...


class Message:
    """One record. Its length is that of its value; two are equal when all their fields are.

    A consumer makes its messages by `messages_of`; an application makes one for its tests, from the fields that it needs.
    """

    __slots__ = ("_columns", "_row")

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: Any = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self._columns: MessageColumns = OwnFields(
            topic=topic,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            headers=headers,
            timestamp=(TIMESTAMP_NOT_AVAILABLE, 0) if timestamp is None else timestamp,
            leader_epoch=-1 if leader_epoch is None else leader_epoch,
            error=error,
            latency=latency,
        )
        self._row = 0
        self.__class__ = OwnMessage

    def topic(self) -> str | None:
        """The topic's name."""
        return self._columns.topic

    def partition(self) -> int | None:
        """The partition's number."""
        return self._columns.partition

    def offset(self) -> int | None:
        """The record's offset."""
        return self._columns.offsets[self._row]  # type: ignore[no-any-return]

    def key(self) -> bytes | None:
        """The key, None for null. With a deserialiser it is what `deserialized_key` gives, which has no certain type."""
        return self._columns.keys[self._row]  # type: ignore[no-any-return]

    def value(self) -> bytes | None:
        """The value, None for null. With a deserialiser it is what `deserialized_value` gives, which has no certain type."""
        return self._columns.values[self._row]  # type: ignore[no-any-return]

    def deserialized_key(self) -> Any:
        """The key as `key.deserializer` made it."""
        return self._columns.keys[self._row]

    def deserialized_value(self) -> Any:
        """The value as `value.deserializer` made it."""
        return self._columns.values[self._row]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Names and values of the headers, None without any."""
        return self._columns.headers(self._row)

    def timestamp(self) -> tuple[int, int]:
        """The type (TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME) and the time in milliseconds since 1970."""
        return self._columns.timestamp(self._row)

    def leader_epoch(self) -> int | None:
        """The epoch of the leader that appended the record, None if it is not known."""
        epoch = self._columns.leader_epoch(self._row)
        return None if epoch < 0 else epoch

    def error(self) -> KafkaError | None:
        """None for a record; for an event or an error its KafkaError, and `value` is its text."""
        return None

    def latency(self) -> float | None:
        """The time of producing the message, which a consumer does not know: None."""
        return None

    def delivery_count(self) -> int | None:
        """How often a share group has delivered the record: None, for a consumer."""
        return None

    def set_topic(self, topic: str | None) -> None:
        """Replace the topic's name."""
        self._own().topic = topic

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._own().keys = [key]

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._own().values = [value]

    def set_headers(self, headers: list[tuple[str, bytes | None]] | None) -> None:
        """Replace the headers."""
        self._own().own_headers = headers

    def set_error(self, error: Any) -> None:
        """Replace the error."""
        self._own().error = error

    def _own(self) -> "OwnFields":
        """This message's fields apart from its columns, where they can be changed."""
        columns, row = self._columns, self._row
        if isinstance(columns, OwnFields):
            return columns
        own = OwnFields(
            topic=columns.topic,
            partition=columns.partition,
            offset=columns.offsets[row],
            key=columns.keys[row],
            value=columns.values[row],
            headers=partial(columns.headers, row),
            timestamp=columns.timestamp(row),
            leader_epoch=columns.leader_epoch(row),
        )
        self._columns, self._row, self.__class__ = own, 0, OwnMessage
        return own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and _fields(self) == _fields(other)

    def __len__(self) -> int:
        return len(self.value() or b"")

    def __repr__(self) -> str:
        error = self.error()
        what = f"key={self.key()!r:.60}, value={self.value()!r:.100}" if error is None else f"error={error!r}"
        return f"Message(topic={self.topic()!r}, partition={self.partition()}, offset={self.offset()}, {what})"


def _fields(message: Message) -> tuple[Any, ...]:
    place = message.topic(), message.partition(), message.offset(), message.leader_epoch()
    return *place, message.key(), message.value(), message.headers(), message.timestamp(), message.error(), message.latency()


class OwnMessage(Message):
    """A message with fields of its own, an error among them."""

    __slots__ = ()
    _columns: "OwnFields"

    def error(self) -> Any:
        return self._columns.error

    def latency(self) -> float | None:
        return self._columns.latency


class ErrorMessage(OwnMessage):
    """An event or an error in the place of a record."""

    __slots__ = ()

    def __init__(self, error: KafkaError, topic: str | None = None, partition: int | None = None, offset: int | None = None) -> None:
        super().__init__(topic, partition, offset, value=error.str().encode(), error=error)


def messages_of(columns: MessageColumns, first: int, end: int) -> list[Message]:
    """Messages of rows `first` to `end` (exclusive). Calling the class for each one would cost a quarter more."""
    messages = list(map(NEW_MESSAGE, repeat(Message, end - first)))
    row = first
    for message in messages:
        message._columns = columns
        message._row = row
        row += 1
    return messages


class OwnFields:
    """The fields of one message, as columns of one row. `headers` may be a function that gives them when they are asked for."""

    def __init__(
        self,
        *,
        topic: Any,
        partition: Any,
        offset: Any,
        key: Any,
        value: Any,
        headers: Any,
        timestamp: tuple[int, int],
        leader_epoch: int,
        error: Any = None,
        latency: float | None = None,
    ) -> None:
        self.topic, self.partition, self.error, self.latency = topic, partition, error, latency
        self.keys: list[Any] = [key]
        self.values: list[Any] = [value]
        self.offsets: list[Any] = [offset]
        self.own_headers = headers
        self._timestamp, self._leader_epoch = timestamp, leader_epoch

    def leader_epoch(self, row: int) -> int:
        """The leader epoch of the record's batch, -1 where it is not known."""
        return self._leader_epoch

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """The headers, None without any."""
        return self.own_headers() if callable(self.own_headers) else self.own_headers  # type: ignore[no-any-return]

    def timestamp(self, row: int) -> tuple[int, int]:
        """The type of the record's time, and the time."""
        return self._timestamp
