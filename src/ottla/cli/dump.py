"""`ottla dump-log`: the lines of a dump, word for word as Kafka's own tool prints them, or as JSON.

Findings go to the second stream. A directory stands for all files in it that can be dumped, and in a data directory for those of its
partitions. Records of coordinators whose type or version no table has are counted, and are no fault: Kafka's next version may write some.
Nothing is written.
"""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TextIO

from ottla.log.dump.batches import BatchItem, DumpOptions, Entry, FindingItem, Item, Note, OldBatchItem, RecordItem
from ottla.log.dump.report import dump_file, files_in
from ottla.log.files import OsFiles
from ottla.log.producer_state import last_sequence
from ottla.metadata.records import decode_any, metadata_record_json
from ottla.protocol.coordinator_records import TRANSACTION_TOPIC_TYPES, decode_offsets_record, offsets_record_json
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import DecodedRecord, JsonValue, UnknownRecord, decode_record, record_json
from ottla.protocol.records.batch import CODEC_MASK, NO_SEQUENCE, BatchHeader
from ottla.protocol.records.compression import Codec
from ottla.text import printable


class RecordContents(Enum):
    """What is decoded of records."""

    NOTHING = "nothing"
    TEXT = "text"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Why a record could not be decoded, in Kafka's words where Kafka has some; an unknown type or version is no fault."""

    sentence: str
    is_fault: bool


class RecordReader:
    """Decodes records of one topic and remembers how many had types or versions that it does not know."""

    def __init__(
        self,
        decode: Callable[[bytes | None, bytes | None], DecodedRecord | UnknownRecord],
        show: Callable[[DecodedRecord], dict[str, Any]],
    ) -> None:
        self._decode = decode
        self._show = show
        self.unknown: Counter[tuple[int, int | None]] = Counter()

    def read(self, record: Record) -> dict[str, Any] | Undecoded:
        """The record's JSON (`key`, if its topic has keys, and `value`), or why it could not be read."""
        try:
            decoded = self._decode(record.key, record.value)
        except PeerError as error:
            return Undecoded(f"Error at offset {record.offset}, skipping. {error}", True)
        if isinstance(decoded, DecodedRecord):
            return self._show(decoded)
        self.unknown[decoded.record_type, decoded.value_version] += 1
        if decoded.value_version is None:
            return Undecoded(f"Unknown record type {decoded.record_type} at offset {record.offset}, skipping.", False)
        words = f"Found an unknown record version {decoded.value_version} for {decoded.record_type} type"
        return Undecoded(f"Error at offset {record.offset}, skipping. {words}", False)


def reader_for(contents: RecordContents) -> RecordReader | None:
    """The reader of records with a schema; None where keys and values are shown as text or not at all."""
    if contents is RecordContents.OFFSETS:
        return RecordReader(decode_offsets_record, offsets_record_json)
    if contents is RecordContents.TRANSACTIONS:
        return RecordReader(partial(decode_record, TRANSACTION_TOPIC_TYPES), partial(record_json, TRANSACTION_TOPIC_TYPES))
    if contents is RecordContents.METADATA:
        return RecordReader(lambda _key, value: decode_any(value), lambda record: {"value": metadata_record_json(record)})
    return None


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

    def __init__(self, out: TextIO, err: TextIO, *, contents: RecordContents, reader: RecordReader | None, with_metadata: bool) -> None:
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
                line = self._record_line(item)
                self._out.write(_for_terminal(line) if self._out.isatty() else line)
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
        if self._contents is not RecordContents.NOTHING and item.control is None:
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
                key, value = (None, found.sentence) if self._contents is RecordContents.METADATA else (found.sentence, None)
            else:
                key = compact_json(found["key"]) if "key" in found else None
                value = "<DELETE>" if found["value"] is None else compact_json(found["value"])
        words = [f"{name}: {text}" for name, text in (("key", key), ("payload", value)) if text is not None]
        return prefix + " ".join(words) if words else ""


def _for_terminal(line: str) -> str:
    """Escape what could control the terminal; files and pipes get the bytes as Kafka's tool writes them."""
    return "".join(each if each in "\n\t" else printable(each) for each in line)


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


Values = dict[str, JsonValue]


class JsonPrinter:
    """Prints everything to `out`, findings too."""

    def __init__(self, out: TextIO, *, contents: RecordContents, reader: RecordReader | None) -> None:
        self._out = out
        self._contents = contents
        self._reader = reader
        self.faults = 0

    def _write(self, kind: str, values: Mapping[str, JsonValue]) -> None:
        self._out.write(json.dumps({"kind": kind, **values}) + "\n")

    def file(self, shown: str) -> None:
        """Begin the dump of a file."""
        self._write("file", {"file": shown})

    def item(self, item: Item) -> None:
        """One object."""
        match item:
            case Note(text):
                self._write("note", {"text": text})
            case FindingItem(heading, text, is_fault):
                self.faults += is_fault
                self._write("finding", {"heading": heading, "text": text.strip(), "isFault": is_fault})
            case BatchItem():
                self._write("batch", _batch(item))
            case OldBatchItem():
                self._write("batch", _old_batch(item))
            case RecordItem():
                self._write("record", self._record(item))
            case Entry(values):
                self._write("entry", values)

    def end(self, counts: Mapping[str, int]) -> None:
        """The object that sums up."""
        unknown = sorted(self._reader.unknown.items(), key=str) if self._reader else ()
        listed = [{"type": record_type, "valueVersion": version, "count": count} for (record_type, version), count in unknown]
        self._write("summary", {**counts, "faults": self.faults, "unknownRecords": listed})

    def _record(self, item: RecordItem) -> Values:
        record = item.record
        values: Values = {
            "offset": record.offset,
            "timestampType": timestamp_type(item.header),
            "timestamp": record.timestamp_ms,
            "keySize": size_of(record.key),
            "valueSize": size_of(record.value),
            "sequence": record_sequence(item),
            "headerKeys": [header.key for header in record.headers],
        }
        if item.control is not None:
            values["control"] = {"type": item.control.name, "id": item.control.control_type, "data": item.control.data}
        elif self._contents is not RecordContents.NOTHING:
            values |= self._content(item)
        return values

    def _content(self, item: RecordItem) -> Values:
        record = item.record
        if self._reader is None:
            return _text("key", record.key) | _text("value", record.value)
        found = self._reader.read(record)
        if isinstance(found, Undecoded):
            self.faults += found.is_fault
            return {"error": found.sentence}
        return found


def _text(name: str, data: bytes | None) -> Values:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": b64encode(data).decode()}


def _batch(item: BatchItem) -> Values:
    header = item.header
    first, last = batch_sequences(header)
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": first,
        "lastSequence": last,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": item.position,
        "timestampType": timestamp_type(header),
        "maxTimestamp": header.max_timestamp_ms,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": codec_name(header.attributes & CODEC_MASK),
        "crc": header.crc,
        "isvalid": item.is_valid,
    }


def _old_batch(item: OldBatchItem) -> Values:
    return {
        "offset": item.offset,
        "position": item.position,
        "timestampType": item.timestamp_type,
        "maxTimestamp": item.timestamp_ms,
        "size": item.size_bytes,
        "magic": item.magic,
        "compresscodec": codec_name(item.codec),
        "crc": item.crc,
        "isvalid": item.is_valid,
    }


class Printer(Protocol):
    """What prints a dump; `faults` counts what was wrong so far."""

    faults: int

    def file(self, shown: str) -> None: ...
    def item(self, item: Item) -> None: ...
    def end(self, counts: Mapping[str, int]) -> None: ...


class Target(NamedTuple):
    """A file to be dumped, or why there is none."""

    path: Path
    finding: FindingItem | None = None


def targets(arguments: Sequence[str]) -> Iterator[Target]:
    """The files that the arguments name, directories opened one level deep, in order."""
    for argument in arguments:
        path = Path(argument)
        try:
            if path.is_dir():
                yield from _in_directory(path)
            elif path.is_file():
                yield Target(path)
            else:
                what = "is neither a file nor a directory" if path.exists() else "is not there"
                yield Target(path, FindingItem(f"{path} could not be read", f"  it {what}"))
        except OSError as error:
            yield Target(path, FindingItem(f"{path} could not be read", f"  {error.strerror or error}"))


def _in_directory(directory: Path) -> Iterator[Target]:
    files = OsFiles(directory)
    partitions = [name for name in _names(files, "") if (directory / name).is_dir()]
    found = [directory / name for name in files_in(_names(files, "")) if (directory / name).is_file()]
    for partition in partitions:
        found += [directory / partition / name for name in files_in(_names(files, partition)) if (directory / partition / name).is_file()]
    yield from map(Target, found)
    if not found:
        yield Target(directory, FindingItem(f"{directory} could not be read", "  no file in it is one of a log"))


def _names(files: OsFiles, directory: str) -> list[str]:
    try:
        return files.list(directory)
    except StorageError as error:
        raise OSError(str(error)) from error


def run(arguments: Sequence[str], options: DumpOptions, printer: Printer) -> int:
    """Dumps everything; the exit status: 1 when anything was wrong with a file."""
    counts = {"files": 0, "batches": 0, "records": 0}
    for path, finding in targets(arguments):
        printer.file(str(path))
        if finding is not None:
            printer.item(finding)
            continue
        counts["files"] += 1
        for item in dump_file(OsFiles(path.parent), path.name, str(path), options):
            counts["batches"] += isinstance(item, BatchItem | OldBatchItem)
            counts["records"] += isinstance(item, RecordItem)
            printer.item(item)
    printer.end(counts)
    return 1 if printer.faults else 0
