"""The lines of a dump as values: what was found in a file, one after another. The command prints them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.core.model import Record
from ottla.core.records.batch import BatchHeader
from ottla.core.records.control import ControlRecord
from ottla.core.records.schema import JsonValue


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the file that is no fault, in Kafka's words where Kafka has some."""

    text: str


@dataclass(frozen=True, slots=True)
class FindingItem:
    """Something that is wrong with a file. `heading` is a line to be printed once before all findings that share it;
    `is_fault`: the file is damaged."""

    heading: str
    text: str
    is_fault: bool = True


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A record batch of format 2, at `position` in its file; `is_valid` compares its checksum."""

    header: BatchHeader
    position: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class OldBatchItem:
    """A message of format 0 or 1, or a compressed set of them, by its first fields; its records are not read here."""

    offset: int
    position: int
    timestamp_type: str
    timestamp_ms: int
    size_bytes: int
    magic: int
    codec: int
    crc: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class RecordItem:
    """A record of the batch with `header`; `control` has its values if the batch is a control batch."""

    header: BatchHeader
    record: Record
    control: ControlRecord | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of named values: an entry of an index, a snapshot or a checkpoint; None stands for a number that is not set."""

    values: Mapping[str, JsonValue]


Item = Note | FindingItem | BatchItem | OldBatchItem | RecordItem | Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """`with_records`: records, not batches alone. `with_entries`: index entries, not only what is wrong with them. `is_sanity_check`: of
    indexes only whether a broker would take them as they are. `bytes_max`: so much of a log is read. `batch_bytes_max`: the largest batch
    that an index may point to."""

    with_records: bool = False
    with_entries: bool = True
    is_sanity_check: bool = False
    bytes_max: int | None = None
    batch_bytes_max: int | None = None
