"""The record batch, magic 2: header, checksum, and records <-> bytes. The reference codec.

Every other reader and writer of batches is held equal to this one. It judges whether bytes can be a batch at all (PeerError if not);
whether a client may append that batch is decided in the log. Any bytes give records or PeerError: every length is compared with the bytes
that are left before it is believed.

For work that must not change records, such as cleaning, `RawRecord` has the fields that decide whether one is kept, and the rest as bytes,
sound or not. Source: KIP-98 and KIP-82 (headers).
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.protocol.errors import BatchTooLarge, PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.compression import NONE, Codec, compress, inflated_section

# length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each at least
RECORD_BYTES_MIN: Final = 7
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
_VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
MAGIC: Final = 2
# The base offset and the length itself are not counted in the length.
LENGTH_OVERHEAD_BYTES: Final = 12
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
LEADER_EPOCH_AT: Final = 12
CRC_AT: Final = 17
# The checksum covers all from here to the end, so that a broker can set base offset and leader epoch without computing it again.
ATTRIBUTES_AT: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
# Set by a cleaning: the base timestamp is when tombstones and markers of this batch may go, and the records' times count from that.
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

Section = bytes | mmap
"""The records of a batch, not compressed: many are in a mapping. Slices of both are bytes."""

# What one batch may inflate to: a hundred times the default largest batch, so no honest producer reaches it.
DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024


def encode_records(records: Iterable[Record], *, base_offset: int, base_timestamp_ms: int) -> bytearray:
    """The records section of a batch, uncompressed. PeerError when a record's time is too far from the base."""
    section = bytearray()
    for record in records:
        body = bytearray(1)  # attributes: none are in use
        put_varint(body, _timestamp_delta(record, base_timestamp_ms))
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
    section: Section, *, count: int, base_offset: int, last_offset_delta: int, base_timestamp_ms: int, with_headers: bool = True
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


def only_record(section: bytes | bytearray | memoryview, at: int, end: int) -> tuple[bytes, bytes] | None:
    """Key and value of the one record that fills `section[at:end]`, where it is as coordinators write them: both there, less than 8 kB,
    no headers, offset and timestamp of its batch. None: `read_record` reads it, or says what is wrong with it. A third of its time.
    """
    try:
        length, at = _short_length(section, at)
        if length != end - at or section[at + 1] or section[at + 2]:
            return None
        key_length, key_at = _short_length(section, at + 3)
        length, at = _short_length(section, key_at + key_length)
        if key_length < 0 or length < 0 or at + length + 1 != end or section[end - 1]:
            return None
    except IndexError:
        return None
    return bytes(section[key_at : key_at + key_length]), bytes(section[at : at + length])


def _short_length(section: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """A length of one or two bytes, and where it ends; -1 for others."""
    first = section[at]
    if first < 0x80:
        return (-1 if first & 1 else first >> 1), at + 1
    second = section[at + 1]
    return (-1 if first & 1 or second >= 0x80 else (first & 0x7F) >> 1 | second << 6), at + 2


def bytes_left(count: int) -> PeerError:
    """The error for a section with so many bytes left when all records were read."""
    return PeerError(f"{count} bytes follow the last record of a batch")


def check_count(count: int, section_bytes: int) -> None:
    """PeerError when so few bytes cannot hold so many records."""
    if count * RECORD_BYTES_MIN > section_bytes:
        raise PeerError(f"a batch of {section_bytes} bytes cannot hold the {count} records that it claims")


def read_record(
    section: Section, at: int, base_offset: int, last_offset_delta: int, base_timestamp_ms: int, with_headers: bool = True
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


def _headers(section: Section, at: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    headers = []
    for _ in range(count):
        key, at = _bytes(section, at, end)
        if key is None:
            raise PeerError("a record header has no key")
        value, at = _bytes(section, at, end)
        # Clients may write any bytes into a header key; like Kafka's own reader we replace what is not UTF-8.
        headers.append(Header(key.decode(errors="replace"), value))
    return tuple(headers), at


def _skip_headers(section: Section, at: int, end: int, count: int) -> int:
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


def read_varint(section: Section, at: int, bytes_max: int = _VARINT_BYTES_MAX) -> tuple[int, int]:
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


def _bytes(section: Section, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(section, at)
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise PeerError(f"a field of {length} bytes does not fit into its record")
    return section[at : at + length], at + length


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, field by field in their order; offsets absolute, times in milliseconds since 1970 (-1: none)."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and all."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """PeerError for one of the three numbers that name no codec."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError as error:
            raise PeerError(f"a batch names codec {self.attributes & CODEC_MASK}, which does not exist") from error

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of the batch may go; None before a cleaning has met them (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None


def read_header(buffer: bytes | bytearray | memoryview, at: int = 0) -> BatchHeader:
    """The header at `at`; PeerError when these bytes cannot be one. The batch itself may reach past the buffer."""
    if at < 0 or len(buffer) - at < HEADER_BYTES:
        raise PeerError(f"{len(buffer) - at} bytes are too few for a batch header")
    header = BatchHeader(*HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise PeerError(f"a batch of format {header.magic}: only format {MAGIC} is read here")
    if header.batch_length < BATCH_LENGTH_MIN or header.base_offset < 0 or header.last_offset_delta < 0 or header.record_count < 0:
        raise PeerError("a batch header with an impossible length, offset or count")
    return header


def crc_is_valid(buffer: bytes | bytearray | memoryview, at: int, size: int) -> bool:
    """Whether the checksum of the `size` bytes of batch at `at` is the stored one; nothing is copied."""
    with memoryview(buffer) as view:
        return crc32c(view[at + ATTRIBUTES_AT : at + size]) == int.from_bytes(view[at + CRC_AT : at + ATTRIBUTES_AT])


def split_batches(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch, in order. A partial last batch is dropped, as Fetch responses may end in one."""
    at = 0
    while len(buffer) - at >= HEADER_BYTES:
        header = read_header(buffer, at)
        if header.size_bytes > len(buffer) - at:
            return
        yield at, header
        at += header.size_bytes


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = NONE,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_log_append_time: bool = False,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytearray:
    """One batch of at least one record, in rising order of offset from `base_offset` on, ready to be sent or appended.

    `last_offset`, where the last record is not the one that the batch once ended with, and `delete_horizon_ms` are a cleaned log's.
    """
    assert records, "a batch without records is made by the cleaner alone (empty_batch)"
    assert records[-1].offset >= records[0].offset >= base_offset, "offsets count from the base offset"
    base_timestamp_ms = records[0].timestamp_ms if delete_horizon_ms is None else delete_horizon_ms
    section: bytes | bytearray = encode_records(records, base_offset=base_offset, base_timestamp_ms=base_timestamp_ms)
    if codec is not NONE:
        section = compress(codec, section)
    flags = is_log_append_time * LOG_APPEND_TIME_BIT | is_transactional * TRANSACTIONAL_BIT | is_control * CONTROL_BIT
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | flags | (delete_horizon_ms is not None) * DELETE_HORIZON_BIT,
        last_offset_delta=(records[-1].offset if last_offset is None else last_offset) - base_offset,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return join_batch(header, section)


def frame_batch(
    section: bytes, count: int, *, timestamp_ms: int, codec: Codec = NONE, bytes_max: int | None = None
) -> tuple[bytearray, BatchHeader]:
    """One batch of a broker's own `count` records, framed already and all of one time, and its header; the same as `encode_batch`'s.

    Raises BatchTooLarge when it is larger than `bytes_max`.
    """
    if codec is not NONE:
        section = compress(codec, section)
    if bytes_max is not None and HEADER_BYTES + len(section) > bytes_max:
        raise BatchTooLarge(f"a batch of {HEADER_BYTES + len(section)} bytes is not written: max.message.bytes is {bytes_max}")
    length = BATCH_LENGTH_MIN + len(section)
    batch = bytearray(HEADER_BYTES)
    fields = (codec, count - 1, timestamp_ms, timestamp_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count)
    HEADER.pack_into(batch, 0, 0, length, 0, MAGIC, 0, *fields)
    batch += section
    crc = crc32c(memoryview(batch)[ATTRIBUTES_AT:])
    batch[CRC_AT:ATTRIBUTES_AT] = crc.to_bytes(4)
    return batch, BatchHeader(0, length, 0, MAGIC, crc, *fields)


def join_batch(header: BatchHeader, section: bytes | bytearray) -> bytearray:
    """A batch of this header and this records section (compressed already); length and checksum are worked out here."""
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=BATCH_LENGTH_MIN + len(section)))
    batch += section
    seal(batch)
    return batch


def empty_batch(header: BatchHeader) -> bytearray:
    """An empty batch, of which a cleaning keeps only the header: its offsets, its producer and its largest timestamp."""
    attributes = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    return join_batch(header._replace(attributes=attributes, base_timestamp_ms=NO_TIMESTAMP, record_count=0), b"")


def seal(batch: bytearray | memoryview) -> None:
    """Write the checksum of a batch that fills `batch`, after a change behind it."""
    with memoryview(batch) as view:
        view[CRC_AT:ATTRIBUTES_AT] = crc32c(view[ATTRIBUTES_AT:]).to_bytes(4)


def decode_batch(
    buffer: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    verify_crc: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """The records of the batch at `at`, control records too; PeerError on anything that is not a complete, sound batch."""
    return list(iter_batch(buffer, at, verify_crc=verify_crc, decompressed_bytes_max=decompressed_bytes_max))


def iter_batch(
    buffer: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    verify_crc: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """As `decode_batch`, one by one, for who keeps none of them: PeerError may come after records that are sound."""
    return open_batch(buffer, at, verify_crc=verify_crc, decompressed_bytes_max=decompressed_bytes_max)[1]


def open_batch(
    buffer: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    verify_crc: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> tuple[Section, Iterator[Record]]:
    """The records section of a batch, decompressed, and its records as `iter_batch` gives them."""
    header, stored = stored_section(buffer, at, verify_crc=verify_crc)
    section = inflated_section(header.codec, stored, output_bytes_max=decompressed_bytes_max)
    records = iter_records(
        section,
        count=header.record_count,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
    )
    if header.is_log_append_time:
        records = (record._replace(timestamp_ms=header.max_timestamp_ms) for record in records)
    return section, records


def stored_section(buffer: bytes | bytearray | memoryview, at: int = 0, *, verify_crc: bool = True) -> tuple[BatchHeader, memoryview]:
    """The header and the records as stored, perhaps compressed, of the batch at `at`; PeerError unless it is complete and sound."""
    header = read_header(buffer, at)
    size = header.size_bytes
    if size > len(buffer) - at:
        raise PeerError(f"a batch of {size} bytes, of which {len(buffer) - at} are there")
    if verify_crc and not crc_is_valid(buffer, at, size):
        raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
    return header, memoryview(buffer)[at + HEADER_BYTES : at + size]


class Batch(NamedTuple):
    """A whole batch, header and all, as bytes, and its header."""

    header: BatchHeader
    data: bytes | memoryview


def merge_batches(copies: Iterable[Iterable[Batch]]) -> Iterator[Batch]:
    """The batches of all copies in the order of their offsets; of several of one offset the one with most records.

    A batch that begins below the end of the one before it is left out: it holds nothing new, as batches keep their bounds for good.
    """
    next_offset = 0
    best: Batch | None = None
    for batch in merge(*copies, key=lambda each: each.header.base_offset):
        if best is not None and batch.header.base_offset > best.header.base_offset:
            yield best
            next_offset = best.header.next_offset
            best = None
        if batch.header.base_offset < next_offset:
            continue
        if best is None or batch.header.record_count > best.header.record_count:
            best = batch
    if best is not None:
        yield best


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


def _timestamp_delta(record: Record | RawRecord, base_timestamp_ms: int) -> int:
    delta = record.timestamp_ms - base_timestamp_ms
    if not -1 - _INT64_MAX <= delta <= _INT64_MAX:
        raise PeerError(f"the timestamp {record.timestamp_ms} of the record at offset {record.offset} does not fit into its batch")
    return delta


def put_raw(out: bytearray, record: RawRecord, *, base_offset: int, base_timestamp_ms: int) -> None:
    """Append the record to a section whose deltas count from these; PeerError when its time is too far from the base."""
    head = bytearray(1)  # attributes: none are in use
    put_varint(head, _timestamp_delta(record, base_timestamp_ms))
    put_varint(head, record.offset - base_offset)
    put_varint(out, len(head) + len(record.rest))
    out += head
    out += record.rest
