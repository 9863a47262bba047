"""The records of `__transaction_state`: one by transactional id, with its producer and its transaction; no value: the id is forgotten."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.loading import Loaded, RecordReducer
from ottla.protocol.coordinator_records import TRANSACTION_TOPIC_TYPES, TransactionKey, TransactionPartitions, TransactionValue
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.record_codec import UnknownRecord, decode_record
from ottla.protocol.records import batch

NO_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
_TYPE: Final = 0
_VALUE_VERSION: Final = 1
"""Written with `transaction.version` 1 and later: the flexible one, with the fields of KIP-890."""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A state of one transactional id; `value` None forgets it.

    `last_epoch` is no part of the bytes: the epoch before the latest bump, by which a repeated request is known until the
    coordinator moves.
    """

    transactional_id: str
    value: TransactionValue | None
    last_epoch: int = NO_EPOCH


def encode_records(records: Sequence[TransactionRecord], first: int) -> bytes:
    """The records of a batch, the first of them number `first`."""
    record_type = TRANSACTION_TOPIC_TYPES[_TYPE]
    framed = []
    for number, record in enumerate(records, first):
        key = record_type.encode_key(_TYPE, TransactionKey(transactional_id=record.transactional_id))
        value = None if record.value is None else record_type.encode_value(record.value, _VALUE_VERSION)
        framed.append(Record(number, 0, key, value))
    return bytes(batch.encode_records(framed, base_offset=0, base_timestamp_ms=0))


class TransactionReducer(RecordReducer[dict[str, TransactionValue]]):
    """Replays a log: the last record of an id wins."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, TransactionValue] = {}

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        record = decode_record(TRANSACTION_TOPIC_TYPES, key, value)
        if isinstance(record, UnknownRecord):
            self.unknown += 1
        elif record.value is None:
            self._values.pop(record.key.transactional_id, None)
        else:
            self._values[record.key.transactional_id] = record.value

    def finish(self) -> Loaded[dict[str, TransactionValue]]:
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
