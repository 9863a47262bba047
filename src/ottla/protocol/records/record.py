"""One record inside a batch (magic 2): Record <-> bytes, with zig-zag varints.

Of its batch it needs only the base offset and timestamp that a record's deltas count from. Any bytes give records or PeerError: every
length is compared with the bytes that are left before it is believed. Source: KIP-98 and KIP-82 (headers).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record

# length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each at least
RECORD_BYTES_MIN: Final = 7
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
_VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def encode_records(records: Iterable[Record], *, base_offset: int, base_timestamp_ms: int) -> bytearray:
    """The records section of a batch, uncompressed."""
    section = bytearray()
    for record in records:
        body = bytearray(1)  # attributes: none are in use
        put_varint(body, record.timestamp_ms - base_timestamp_ms)
        put_varint(body, record.offset - base_offset)
        _put_bytes(body, record.key)
        _put_bytes(body, record.value)
        put_varint(body, len(record.headers))
        for key, value in record.headers:
            _put_bytes(body, key.encode())
            _put_bytes(body, value)
        put_varint(section, len(body))
        section += body
    return section


def iter_records(
    section: bytes, *, count: int, base_offset: int, last_offset_delta: int, base_timestamp_ms: int, with_headers: bool = True
) -> Iterator[Record]:
    """The `count` records that fill `section` exactly; PeerError otherwise, perhaps after records that are sound.

    Unless `with_headers`, headers are checked and then left out: a record may have millions.
    """
    check_count(count, len(section))
    at = 0
    for _ in range(count):
        record, at = read_record(section, at, base_offset, last_offset_delta, base_timestamp_ms, with_headers)
        yield record
    if at != len(section):
        raise bytes_left(len(section) - at)


def bytes_left(count: int) -> PeerError:
    """The error for a section with so many bytes left when all records were read."""
    return PeerError(f"{count} bytes follow the last record of a batch")


def check_count(count: int, section_bytes: int) -> None:
    """PeerError when so few bytes cannot hold so many records."""
    if count * RECORD_BYTES_MIN > section_bytes:
        raise PeerError(f"a batch of {section_bytes} bytes cannot hold the {count} records that it claims")


def read_record(
    section: bytes, at: int, base_offset: int, last_offset_delta: int, base_timestamp_ms: int, with_headers: bool = True
) -> tuple[Record, int]:
    """The record at `at` of a section, and where it ends; PeerError when there is none."""
    try:
        length, at = read_varint(section, at)
        end = at + length
        if length < 0 or end > len(section):
            raise PeerError(f"a record of {length} bytes does not fit into its batch")
        timestamp_delta, at = read_varint(section, at + 1, VARLONG_BYTES_MAX)
        offset_delta, at = read_varint(section, at)
        key, at = _bytes(section, at, end)
        value, at = _bytes(section, at, end)
        header_count, at = read_varint(section, at)
        if not 0 <= offset_delta <= last_offset_delta:
            raise PeerError(f"a record's offset delta {offset_delta} lies outside its batch (0 to {last_offset_delta})")
        if not 0 <= header_count <= (end - at) // 2:
            raise PeerError(f"a record claims {header_count} headers in {end - at} bytes")
        timestamp_ms = base_timestamp_ms + timestamp_delta
        if not -1 - _INT64_MAX <= timestamp_ms <= _INT64_MAX:
            raise PeerError("a record's timestamp does not fit into 64 bits")
        headers: tuple[Header, ...] = ()
        if header_count:
            headers, at = _headers(section, at, end, header_count) if with_headers else ((), _skip_headers(section, at, end, header_count))
    except IndexError as error:
        raise PeerError("a batch ends inside a record") from error
    if at != end:
        raise PeerError(f"a record of {length} bytes has {end - at} bytes too many")
    return Record(base_offset + offset_delta, timestamp_ms, key, value, headers), at


def _headers(section: bytes, at: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    headers = []
    for _ in range(count):
        key, at = _bytes(section, at, end)
        if key is None:
            raise PeerError("a record header has no key")
        value, at = _bytes(section, at, end)
        # Clients may write any bytes into a header key; like Kafka's own reader we replace what is not UTF-8.
        headers.append(Header(key.decode(errors="replace"), value))
    return tuple(headers), at


def _skip_headers(section: bytes, at: int, end: int, count: int) -> int:
    for _ in range(count):
        length, at = read_varint(section, at)
        if length == -1:
            raise PeerError("a record header has no key")
        at = _skip_bytes(length, at, end)
        length, at = read_varint(section, at)
        at = _skip_bytes(length, at, end)
    return at


def _skip_bytes(length: int, at: int, end: int) -> int:
    if length < -1 or at + max(length, 0) > end:
        raise PeerError(f"a field of {length} bytes does not fit into its record")
    return at + max(length, 0)


def put_varint(out: bytearray, number: int) -> None:
    """Append a number of at most 64 bits, zig-zag."""
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zig-zag of -1
        return
    put_varint(out, len(data))
    out += data


def read_varint(section: bytes, at: int, bytes_max: int = _VARINT_BYTES_MAX) -> tuple[int, int]:
    """The number at `at` and the position after it; IndexError where the section ends."""
    byte = section[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    zigzag = byte & 0x7F
    for more in range(1, bytes_max):
        byte = section[at + more]
        zigzag |= (byte & 0x7F) << (7 * more)
        if byte < 0x80:
            number = (zigzag >> 1) ^ -(zigzag & 1)
            limit = _INT32_MAX if bytes_max == _VARINT_BYTES_MAX else _INT64_MAX
            if not -1 - limit <= number <= limit:
                break
            return number, at + more + 1
    raise PeerError("a variable-length number is too long")


def _bytes(section: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(section, at)
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise PeerError(f"a field of {length} bytes does not fit into its record")
    return section[at : at + length], at + length
