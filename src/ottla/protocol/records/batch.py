"""The record batch, magic 2: header, checksum, and records <-> bytes. The reference codec.

Every other reader and writer of batches is held equal to this one. It judges whether bytes can be a batch at all (PeerError if not);
whether a client may append that batch is decided in storage. Source: KIP-98.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.protocol.errors import BatchTooLarge, PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.compression import NONE, Codec, compress, decompress
from ottla.protocol.records.record import encode_records, iter_records

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

# What one batch may inflate to: a hundred times the default largest batch, so no honest producer reaches it.
DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024


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
    header, stored = stored_section(buffer, at, verify_crc=verify_crc)
    section = decompress(header.codec, stored, output_bytes_max=decompressed_bytes_max)
    records = iter_records(
        section,
        count=header.record_count,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
    )
    if header.is_log_append_time:
        return (record._replace(timestamp_ms=header.max_timestamp_ms) for record in records)
    return records


def stored_section(buffer: bytes | bytearray | memoryview, at: int = 0, *, verify_crc: bool = True) -> tuple[BatchHeader, memoryview]:
    """The header and the records as stored, perhaps compressed, of the batch at `at`; PeerError unless it is complete and sound."""
    header = read_header(buffer, at)
    size = header.size_bytes
    if size > len(buffer) - at:
        raise PeerError(f"a batch of {size} bytes, of which {len(buffer) - at} are there")
    if verify_crc and not crc_is_valid(buffer, at, size):
        raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
    return header, memoryview(buffer)[at + HEADER_BYTES : at + size]
