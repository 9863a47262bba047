"""The lines of a dump as JSON, one object a line: `kind` says what it is, the other names are those of the text.

Keys and values that are not UTF-8 are base64 under a name of their own, so that nothing is lost. The last object sums up.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import TextIO

from ottla.cli.dump.contents import Contents, RecordReader, Undecoded
from ottla.cli.dump.text import batch_sequences, codec_name, record_sequence, size_of, timestamp_type
from ottla.core.records.batch import CODEC_MASK
from ottla.core.records.schema import JsonValue
from ottla.storage.dump.items import BatchItem, Entry, FindingItem, Item, Note, OldBatchItem, RecordItem

Values = dict[str, JsonValue]


class JsonPrinter:
    """Prints everything to `out`, findings too."""

    def __init__(self, out: TextIO, *, contents: Contents, reader: RecordReader | None) -> None:
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
        elif self._contents is not Contents.NOTHING:
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
        value: Values | None = None if found.value is None else {"version": str(found.value_version), "data": found.value}
        return {"key": {"type": str(found.record_type), "data": found.key}, "value": value}


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
