"""What a dump shows of a record's key and value: text, or what a coordinator's record says.

It counts the records whose type or version no table has: Kafka's next version may well write some, so they are no fault.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.schema import DecodedRecord, UnknownRecord

Decoder = Callable[[bytes | None, bytes | None], DecodedRecord | UnknownRecord]


class Contents(Enum):
    """What is decoded of records."""

    NOTHING = "nothing"
    TEXT = "text"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Why a record could not be decoded, in Kafka's words where Kafka has some; an unknown type or version is no fault."""

    sentence: str
    is_fault: bool


class RecordReader:
    """Decodes records with one decoder and remembers how many had types or versions that it does not know."""

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode
        self.unknown: Counter[tuple[int, int | None]] = Counter()

    def read(self, record: Record) -> DecodedRecord | Undecoded:
        """What the record says, or why it could not be read."""
        try:
            found = self._decode(record.key, record.value)
        except PeerError as error:
            return Undecoded(f"Error at offset {record.offset}, skipping. {error}", True)
        if isinstance(found, DecodedRecord):
            return found
        self.unknown[found.record_type, found.value_version] += 1
        if found.value_version is None:
            return Undecoded(f"Unknown record type {found.record_type} at offset {record.offset}, skipping.", False)
        words = f"Found an unknown record version {found.value_version} for {found.record_type} type"
        return Undecoded(f"Error at offset {record.offset}, skipping. {words}", False)


def reader_for(contents: Contents) -> RecordReader | None:
    """The reader of a coordinator's records; None where keys and values are shown as text or not at all."""
    if contents is Contents.OFFSETS:
        from ottla.core.groups.log.record_schemas import describe

        return RecordReader(describe)
    if contents is Contents.TRANSACTIONS:
        from ottla.core.records.schema import decode_record
        from ottla.core.records.transaction_log import TRANSACTION_LOG_TYPES

        return RecordReader(lambda key, value: decode_record(TRANSACTION_LOG_TYPES, key, value))
    return None
