"""The records of `__transaction_state`: one by transactional id, with its producer and its transaction; no value: the id is forgotten."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct, pack
from typing import Final

from ottla.coordinator.loading import Loaded, RecordReducer
from ottla.protocol.coordinator_records import TRANSACTION_TOPIC_TYPES, TransactionPartitions, TransactionValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.record_codec import UnknownRecord, decode_record
from ottla.protocol.records import batch
from ottla.protocol.wire.primitives import Reader, encode_uvarint
from ottla.transactions.states import State

NO_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
_TYPE: Final = 0
_VALUE_VERSION: Final = 1
"""Written with `transaction.version` 1 and later: the flexible one, with the fields of KIP-890."""
Stored = TransactionValue | bytes
"""A value, or the bytes of one that has no partitions and is sound (`_ENDED`)."""
STATUS_AT: Final = 16
"""Where the state lies in the bytes of a value, of any version."""
_STATES: Final = tuple(State)
_KEY_HEAD: Final = Struct(">hh")
_VALUE_HEAD: Final = Struct(">hqhib")
_VALUE_TIMES: Final = Struct(">qq")
# Tagged fields: their number, their size, an id or a version.
_PRODUCER_ID: Final = Struct(">BBq")
_CLIENT_VERSION: Final = Struct(">BBh")
_PLAIN_KEY: Final = re.compile(rb"\x00\x00.{2,}", re.DOTALL).fullmatch
_ENDED: Final = re.compile(
    # version 1, producer id, epoch and timeout; Empty or Complete*; no partitions; two timestamps; previous producer and client's version
    rb"\x00\x01.{14}[\x00\x04\x05][\x00\x01].{16}"
    rb"(?:\x00|\x01\x00\x08.{8}|\x01\x02\x02.{2}|\x02\x00\x08.{8}\x02\x02.{2})",
    re.DOTALL,
).fullmatch


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A state of one transactional id; `value` None forgets it.

    `last_epoch` is no part of the bytes: the epoch before the latest bump, by which a repeated request is known until the
    coordinator moves.
    """

    transactional_id: str
    value: TransactionValue | None
    last_epoch: int = NO_EPOCH


def value_of(stored: Stored) -> TransactionValue:
    """The value, decoded."""
    if not isinstance(stored, bytes):
        return stored
    value: TransactionValue = TRANSACTION_TOPIC_TYPES[_TYPE].value.decode(Reader(stored[2:]), int.from_bytes(stored[:2]))
    return value


def state_of(stored: Stored) -> State:
    """The state, without decoding anything."""
    return _STATES[stored[STATUS_AT] if isinstance(stored, bytes) else stored.transaction_status]


def encode_records(records: Sequence[TransactionRecord], first: int) -> bytes:
    """The records of a batch, the first of them number `first`."""
    framed = []
    for number, record in enumerate(records, first):
        name = record.transactional_id.encode()
        key = _KEY_HEAD.pack(_TYPE, len(name)) + name
        framed.append(Record(number, 0, key, None if record.value is None else _encode_value(record.value)))
    return bytes(batch.encode_records(framed, base_offset=0, base_timestamp_ms=0))


def _encode_value(value: TransactionValue) -> bytes:
    """As `RecordType.encode_value` does, in a fifth of its time: every transaction writes three of them."""
    out = bytearray(
        _VALUE_HEAD.pack(_VALUE_VERSION, value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.transaction_status)
    )
    if value.transaction_partitions is None:
        out.append(0)
    else:
        out += encode_uvarint(len(value.transaction_partitions) + 1)
        for topic in value.transaction_partitions:
            name, numbers = topic.topic.encode(), topic.partition_ids
            out += encode_uvarint(len(name) + 1)
            out += name
            out += encode_uvarint(len(numbers) + 1)
            out += pack(f">{len(numbers)}i", *numbers)
            out.append(0)
    out += _VALUE_TIMES.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
    tags = [
        *((_PRODUCER_ID.pack(0, 8, value.previous_producer_id),) if value.previous_producer_id != NO_PRODUCER_ID else ()),
        *((_PRODUCER_ID.pack(1, 8, value.next_producer_id),) if value.next_producer_id != NO_PRODUCER_ID else ()),
        *((_CLIENT_VERSION.pack(2, 2, value.client_transaction_version),) if value.client_transaction_version else ()),
    ]
    out.append(len(tags))
    return bytes(out) + b"".join(tags)


class TransactionReducer(RecordReducer[dict[str, Stored]]):
    """Replays a log: the last record of an id wins.

    Of ids without a transaction, which are nearly all, the values stay bytes: each is decoded when something asks for its id.
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Stored] = {}

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        if key is not None and value is not None and _PLAIN_KEY(key) and _ENDED(value) and int.from_bytes(key[2:4]) == len(key) - 4:
            try:
                self._values[key[4:].decode()] = value
            except UnicodeDecodeError as error:
                raise PeerError(f"a transactional id that is no UTF-8: {error}") from error
            return
        record = decode_record(TRANSACTION_TOPIC_TYPES, key, value)
        if isinstance(record, UnknownRecord):
            self.unknown += 1
        elif record.value is None:
            self._values.pop(record.key.transactional_id, None)
        else:
            self._values[record.key.transactional_id] = record.value

    def finish(self) -> Loaded[dict[str, Stored]]:
        return Loaded(self._values, self.unknown, tuple(self.problems))


def partitions_of(value: TransactionValue) -> list[TopicPartition]:
    """The partitions of the open transaction, in the record's order."""
    return [TopicPartition(group.topic, number) for group in value.transaction_partitions or () for number in group.partition_ids]


def grouped(partitions: Iterable[TopicPartition]) -> tuple[TransactionPartitions, ...]:
    """Partitions by topic, as a record has them."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return tuple(TransactionPartitions(topic=topic, partition_ids=tuple(numbers)) for topic, numbers in by_topic.items())
