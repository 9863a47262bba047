"""The lines of a dump, word for word as Kafka's own tool prints them, so that scripts that search for them work.

Findings go to the second stream. A line per item; nothing is decided here but the words.
"""

import json
from collections.abc import Mapping
from typing import Final, TextIO

from ottla.cli.dump.contents import Contents, RecordReader, Undecoded
from ottla.core.records.batch import CODEC_MASK, NO_SEQUENCE, BatchHeader
from ottla.core.records.compression import Codec
from ottla.core.records.schema import JsonValue
from ottla.storage.dump.items import BatchItem, Entry, FindingItem, Item, Note, OldBatchItem, RecordItem
from ottla.storage.log.producer_state import last_sequence

# The words before what a control record says; the transaction markers have words of their own.
_CONTROL_WORDS: Final = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}
_MARKERS: Final = ("ABORT", "COMMIT")


def codec_name(number: int) -> str:
    """Kafka's name of a codec; a number that names none is shown as it is."""
    return Codec(number).name.lower() if number in Codec.__members__.values() else f"unknown({number})"


def timestamp_type(header: BatchHeader) -> str:
    """Kafka's name of what a batch's timestamps are."""
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def batch_sequences(header: BatchHeader) -> tuple[int, int]:
    """The first and the last sequence of a batch, -1 without."""
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE, NO_SEQUENCE
    return header.base_sequence, last_sequence(header.base_sequence, header.last_offset_delta)


def record_sequence(item: RecordItem) -> int:
    """The sequence of a record, -1 without."""
    header = item.header
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return last_sequence(header.base_sequence, item.record.offset - header.base_offset)


def compact_json(value: JsonValue) -> str:
    """JSON without spaces, as Kafka prints it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class TextPrinter:
    """Prints to `out`, findings to `err`."""

    def __init__(self, out: TextIO, err: TextIO, *, contents: Contents, reader: RecordReader | None, with_metadata: bool) -> None:
        self._out = out
        self._err = err
        self._contents = contents
        self._reader = reader
        self._with_metadata = with_metadata
        self._heading = ""
        self.faults = 0

    def file(self, shown: str) -> None:
        """Begin the dump of a file."""
        self._heading = ""
        self._out.write(f"Dumping {shown}\n")

    def item(self, item: Item) -> None:
        """One line, or two where a heading is due."""
        match item:
            case Note(text):
                self._out.write(text + "\n")
            case FindingItem():
                self._finding(item)
            case BatchItem():
                self._out.write(_batch_line(item))
            case OldBatchItem():
                self._out.write(_old_batch_line(item))
            case RecordItem():
                self._out.write(self._record_line(item))
            case Entry(values):
                self._out.write(_entry_line(values))

    def _finding(self, finding: FindingItem) -> None:
        self.faults += finding.is_fault
        self._out.flush()
        if finding.heading != self._heading:
            self._heading = finding.heading
            self._err.write(finding.heading + "\n")
        self._err.write(finding.text + "\n")

    def end(self, counts: Mapping[str, int]) -> None:
        """Say at the end what could not be decoded, if anything."""
        self._out.flush()
        if self._reader is None:
            return
        for (record_type, version), count in sorted(self._reader.unknown.items(), key=str):
            what = f"type {record_type}" if version is None else f"type {record_type} with value version {version}"
            self._err.write(f"Not known, and skipped: {count} record{'s' * (count != 1)} of {what}\n")

    def _record_line(self, item: RecordItem) -> str:
        line = f"| {_record_words(item)}" if self._with_metadata else ""
        if self._contents is not Contents.NOTHING and item.control is None:
            line += self._content_words(item, " " if self._with_metadata else "| ")
        return line + "\n"

    def _content_words(self, item: RecordItem, prefix: str) -> str:
        record = item.record
        if self._reader is None:
            key = None if record.key is None else record.key.decode(errors="replace")
            value = None if record.value is None else record.value.decode(errors="replace")
        else:
            found = self._reader.read(record)
            if isinstance(found, Undecoded):
                self.faults += found.is_fault
                key, value = found.sentence, None
            else:
                key = compact_json({"type": str(found.record_type), "data": found.key})
                value = "<DELETE>"
                if found.value is not None:
                    value = compact_json({"version": str(found.value_version), "data": found.value})
        words = [f"{name}: {text}" for name, text in (("key", key), ("payload", value)) if text is not None]
        return prefix + " ".join(words) if words else ""


def _batch_line(item: BatchItem) -> str:
    header = item.header
    first, last = batch_sequences(header)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
        f" baseSequence: {first} lastSequence: {last}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch}"
        f" isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)}"
        f" deleteHorizonMs: {_optional(header.delete_horizon_ms)} position: {item.position}"
        f" {timestamp_type(header)}: {header.max_timestamp_ms} size: {header.size_bytes} magic: {header.magic}"
        f" compresscodec: {codec_name(header.attributes & CODEC_MASK)} crc: {header.crc} isvalid: {_bool(item.is_valid)}\n"
    )


def _old_batch_line(item: OldBatchItem) -> str:
    return (
        f"offset: {item.offset} position: {item.position} {item.timestamp_type}: {item.timestamp_ms} size: {item.size_bytes}"
        f" magic: {item.magic} compresscodec: {codec_name(item.codec)} crc: {item.crc} isvalid: {_bool(item.is_valid)}\n"
    )


def _record_words(item: RecordItem) -> str:
    record = item.record
    words = (
        f"offset: {record.offset} {timestamp_type(item.header)}: {record.timestamp_ms} keySize: {size_of(record.key)}"
        f" valueSize: {size_of(record.value)} sequence: {record_sequence(item)}"
        f" headerKeys: [{','.join(header.key for header in record.headers)}]"
    )
    control = item.control
    if control is None:
        return words
    if control.name in _MARKERS:
        return f"{words} endTxnMarker: {control.name} coordinatorEpoch: {control.data['coordinatorEpoch']}"
    if control.name in _CONTROL_WORDS:
        return f"{words} {_CONTROL_WORDS[control.name]} {compact_json(control.data)}"
    return f"{words} controlType: {control.name}({control.control_type})"


def size_of(data: bytes | None) -> int:
    """The length in bytes, -1 of what is not there."""
    return -1 if data is None else len(data)


def _entry_line(values: Mapping[str, JsonValue]) -> str:
    optional = {"currentTxnFirstOffset"}
    words = (f"{name}: {_optional(value) if name in optional else value}" for name, value in values.items())
    return " ".join(words) + "\n"


def _optional(value: object) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
