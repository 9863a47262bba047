"""Records as spans of bytes: the fields that decide whether one is kept, and the rest untouched.

For work on records that must not change them, such as cleaning: key, value and headers are copied from batch to batch as they are, sound
or not. `record.py` decodes a record for clients and people. Any bytes give records or PeerError. Source: KIP-98.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.record import RECORD_BYTES_MIN, VARLONG_BYTES_MAX, put_varint, read_varint

_INT64_MAX: Final = (1 << 63) - 1


class RawRecord(NamedTuple):
    """`timestamp_ms` is absolute. `rest` is everything from the key's length to the record's end."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    has_value: bool
    rest: bytes


def read_raw(section: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    """The records that fill the uncompressed `section` of the batch with this header; PeerError when they do not fill it."""
    if header.record_count * RECORD_BYTES_MIN > len(section):
        raise PeerError(f"a batch of {len(section)} bytes cannot hold the {header.record_count} records that it claims")
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(section, at)
            end = at + length
            if length < 0 or end > len(section):
                raise PeerError(f"a record of {length} bytes does not fit into its batch")
            yield _read_one(section, at, end, header)
            at = end
    except IndexError as error:
        raise PeerError("a batch ends inside a record") from error
    if at != len(section):
        raise PeerError(f"{len(section) - at} bytes follow the last record of a batch")


def _read_one(section: bytes, at: int, end: int, header: BatchHeader) -> RawRecord:
    timestamp_delta, at = read_varint(section, at + 1, VARLONG_BYTES_MAX)
    offset_delta, at = read_varint(section, at)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise PeerError(f"a record's offset delta {offset_delta} lies outside its batch (0 to {header.last_offset_delta})")
    timestamp_ms = header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms + timestamp_delta
    if not -1 - _INT64_MAX <= timestamp_ms <= _INT64_MAX:
        raise PeerError("a record's timestamp does not fit into 64 bits")
    rest_at = at
    key_bytes, at = read_varint(section, at)
    key_at, value_at = at, at + max(0, key_bytes)
    value_bytes, at = read_varint(section, value_at)
    if key_bytes < -1 or value_bytes < -1 or at + max(0, value_bytes) > end:
        raise PeerError(f"a key of {key_bytes} and a value of {value_bytes} bytes do not fit into their record")
    key = section[key_at:value_at] if key_bytes >= 0 else None
    return RawRecord(header.base_offset + offset_delta, timestamp_ms, key, value_bytes >= 0, section[rest_at:end])


def put_raw(out: bytearray, record: RawRecord, *, base_offset: int, base_timestamp_ms: int) -> None:
    """Append the record to a section whose deltas count from these; PeerError when its time is too far from the base."""
    timestamp_delta = record.timestamp_ms - base_timestamp_ms
    if not -1 - _INT64_MAX <= timestamp_delta <= _INT64_MAX:
        raise PeerError(f"the timestamp {record.timestamp_ms} of the record at offset {record.offset} does not fit into its batch")
    head = bytearray(1)  # attributes: none are in use
    put_varint(head, timestamp_delta)
    put_varint(head, record.offset - base_offset)
    put_varint(out, len(head) + len(record.rest))
    out += head
    out += record.rest
