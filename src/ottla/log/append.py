"""From what a client sent for a partition to what the log stores of it: checked, brought into the topic's codec, with offsets.

The checks are Kafka's, in Kafka's order: the header and the checksum at once; single records only where no header can answer, as a
compacted topic needs keys, a time that is out of range belongs to records with numbers, and how far back a batch reaches stands in no
header. A compressed batch may hold a hundred times its own size: the caller decides on which thread its records are read.

A topic's `compression.type` other than `producer` gives the stored batch the topic's codec, whatever the client sent: the records section
is inflated and deflated as a whole; a batch that has the codec already is not changed, whatever level its producer chose, as in Kafka.
Offsets and the leader epoch lie outside the checksum and are written in place; with a changed timestamp the checksum is computed again.

Nothing here knows producers, and nothing is appended. Source: Kafka's `ProduceRequest.validateRecords`,
`UnifiedLog.analyzeAndValidateRecords`, `LogValidator`, `BrokerCompressionType`; levels by KIP-390.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_valid,
    join_batch,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, Compressed, Inflated, compress, inflate, too_much
from ottla.protocol.records.record_checks import CheckRecords, Checks, Fault, Section, check_records

_MAGIC_AT: Final = 16
_LENGTH: Final = Struct(">8xi")
# What a message of format 0 has at least; Kafka looks for that before it looks at the format.
_OLDER_LENGTH_MIN: Final = 14
_LENGTH_MAX: Final = (1 << 31) - 1 - LENGTH_OVERHEAD_BYTES
_INT64_MAX: Final = (1 << 63) - 1
# How a compressed section must begin; snappy has no sign of its own. Zstandard also has frames to be skipped, with these low bits free.
_GZIP_SIGN: Final = 0x1F8B
_LZ4_SIGN: Final = 0x04224D18
_ZSTD_SIGNS: Final = (0x28B52FFD, 0x502A4D18)
_ZSTD_FREE_BITS: Final = 0x0F000000
_SIGN_BYTES: Final = 4


class Appended(NamedTuple):
    """A batch lies in the log (or lay there already, when a producer repeated it).

    log_append_time_ms: -1 unless the topic's timestamps are the broker's.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class LogRefusal(NamedTuple):
    """Nothing was appended.

    record_errors: (number in the batch, sentence) of single records at fault, at most `record_checks.FAULTS_MAX`.
    before_log: refused before the log was asked, as a bad request; else the answer may say where the log begins.
    """

    error: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()
    before_log: bool = False


def read_client_batch(batches: memoryview) -> BatchHeader | LogRefusal:
    """The header of the one batch that a client may send for a partition. A partial batch behind it does not count, as in Kafka."""
    first = whole_batch(batches, 0)
    if first is None:
        return _bad_request("A produce request must hold exactly one record batch per partition; there is none")
    if isinstance(first, LogRefusal):
        return first
    if batches[_MAGIC_AT] != MAGIC:
        return _bad_request(
            f"Produce requests are only allowed to contain record batches of format {MAGIC}; this is format {batches[_MAGIC_AT]}"
        )
    if first != len(batches):
        second = whole_batch(batches, first)
        if isinstance(second, LogRefusal):
            return second
        if second is not None:
            return _bad_request("A produce request must hold exactly one record batch per partition; there are more")
    if first < HEADER_BYTES:
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (its {first} bytes are too few for a header)")
    return BatchHeader._make(HEADER.unpack_from(batches))


def whole_batch(batches: memoryview, at: int) -> int | LogRefusal | None:
    """The size of the batch or older message at `at`; None when it is not all there."""
    there = len(batches) - at
    if there < LENGTH_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(batches, at)
    if length < _OLDER_LENGTH_MIN:
        sentence = f"Record size {length} is less than the minimum record overhead ({_OLDER_LENGTH_MIN})"
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, sentence, before_log=True)
    if length > _LENGTH_MAX:
        # Kafka adds the twelve bytes before it and overflows; what its clients see is the same.
        return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Record size {length} is too large", before_log=True)
    if there <= _MAGIC_AT:
        return None
    if batches[at + _MAGIC_AT] > MAGIC:
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {batches[at + _MAGIC_AT]}", before_log=True)
    size: int = length + LENGTH_OVERHEAD_BYTES
    return size if size <= there else None


def _bad_request(message: str) -> LogRefusal:
    return LogRefusal(ErrorCode.INVALID_RECORD, message, before_log=True)


def header_refusal(header: BatchHeader, batch: memoryview, settings: LogSettings) -> LogRefusal | None:
    """Why a client's batch, which fills `batch`, may not be appended; None when its header and checksum allow it.

    `needs_record_checks` and `size_refusal` are to be asked then.
    """
    size = len(batch)
    attributes = header.attributes
    if header.base_offset != 0:
        return _invalid(f"The baseOffset of the record batch should be 0, but it is {header.base_offset}")
    if size > settings.max_message_bytes:
        return size_refusal(size, settings)
    if not crc_is_valid(batch, 0, size):
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (stored crc = {header.crc})")
    if attributes & CODEC_MASK > ZSTD:
        return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {attributes & CODEC_MASK}")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        return _invalid(f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {header.record_count}")
    if attributes & CONTROL_BIT:
        return _invalid("Clients are not allowed to write control records")
    if header.producer_id >= 0 > header.base_sequence:
        return _invalid(f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}")
    if attributes & CODEC_MASK:
        refused = _not_compressed(attributes & CODEC_MASK, batch)
        if refused is not None:
            return refused
    elif header.record_count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        return _invalid(f"{size - HEADER_BYTES} bytes cannot hold the {header.record_count} records that the batch claims")
    return None


def _invalid(message: str) -> LogRefusal:
    return LogRefusal(ErrorCode.INVALID_RECORD, message)


def size_refusal(size: int, settings: LogSettings) -> LogRefusal | None:
    """Whether a batch is larger than max.message.bytes or than segment.bytes."""
    if size > settings.max_message_bytes:
        message = f"The record batch size is {size} bytes, which exceeds the maximum configured value of {settings.max_message_bytes}"
        return LogRefusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    if size > settings.segment_bytes:
        message = f"The record batch size is {size} bytes, which exceeds the maximum configured segment size of {settings.segment_bytes}"
        return LogRefusal(ErrorCode.RECORD_LIST_TOO_LARGE, message)
    return None


def _not_compressed(codec: int, batch: memoryview) -> LogRefusal | None:
    """Sections that do not begin as the codec's do; that costs nothing to see."""
    sign = int.from_bytes(batch[HEADER_BYTES : HEADER_BYTES + _SIGN_BYTES])
    if (
        codec == SNAPPY
        or (codec == ZSTD and (sign == _ZSTD_SIGNS[0] or sign & ~_ZSTD_FREE_BITS == _ZSTD_SIGNS[1]))
        or (codec == LZ4 and sign == _LZ4_SIGN)
        or (codec == GZIP and sign >> 16 == _GZIP_SIGN)
    ):
        return None
    return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"The batch's {Codec(codec).name.lower()} data cannot be decompressed")


def needs_record_checks(header: BatchHeader, settings: LogSettings, now_ms: int) -> bool:
    """Whether the header alone does not say that all is well: the largest time stands in it, the smallest and the keys do not."""
    if settings.is_compacted:
        return True
    if settings.is_log_append_time:
        return header.is_log_append_time
    return (
        header.max_timestamp_ms - now_ms > settings.message_timestamp_after_max_ms
        or settings.message_timestamp_before_max_ms != _INT64_MAX
        or (header.max_timestamp_ms == NO_TIMESTAMP and header.is_log_append_time)
    )


def record_refusal(header: BatchHeader, section: Section, settings: LogSettings, now_ms: int, check: CheckRecords) -> LogRefusal | None:
    """Why a batch may not be appended because of its records, `section`; None when it may. PeerError when they cannot be decompressed.

    More strictly than Kafka, whatever does not run from offset 0 to the last is refused, compressed or not.
    """
    checks = Checks(
        needs_key=settings.is_compacted,
        checks_time=not settings.is_log_append_time,
        earliest_ms=max(now_ms - settings.message_timestamp_before_max_ms, -_INT64_MAX - 1),
        latest_ms=min(now_ms + settings.message_timestamp_after_max_ms, _INT64_MAX),
    )
    found = check(section, header, checks)
    if found.damage is not None:
        return _invalid(found.damage)
    if found.out_of_order is not None:
        error = ErrorCode.INVALID_RECORD if header.codec is NONE else ErrorCode.UNKNOWN_SERVER_ERROR
        number, offset_delta = found.out_of_order
        return LogRefusal(error, f"Record {number} of the batch has offset delta {offset_delta}")
    if found.faults:
        error = ErrorCode.INVALID_TIMESTAMP if found.has_bad_timestamp else ErrorCode.INVALID_RECORD
        sentences = tuple((number, _sentence(number, fault, timestamp_ms, checks)) for number, fault, timestamp_ms in found.faults)
        return LogRefusal(error, "One or more records have been rejected", sentences)
    if not settings.is_log_append_time and header.max_timestamp_ms - now_ms > settings.message_timestamp_after_max_ms:
        # Kafka corrects the header; here it would steer retention, so a client that lies about it is refused.
        return LogRefusal(ErrorCode.INVALID_TIMESTAMP, f"The batch's largest timestamp {header.max_timestamp_ms} is none of its records'")
    return None


def _sentence(number: int, fault: Fault, timestamp_ms: int, checks: Checks) -> str:
    if fault is Fault.NO_KEY:
        return "Compacted topic cannot accept message without key"
    if fault is Fault.LOG_APPEND_TIME:
        return "Producer should not set timestamp type to LogAppendTime"
    return (
        f"Timestamp {timestamp_ms} of message with offset {number} is out of range."
        f" The timestamp should be within [{checks.earliest_ms}, {checks.latest_ms}]"
    )


_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def own_batches(view: memoryview) -> list[BatchHeader] | LogRefusal:
    """The headers of whole, sound batches that fill `view`, for what the broker itself appends."""
    try:
        found = list(split_batches(view))
    except PeerError as error:
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if not found or sum(header.size_bytes for _, header in found) != len(view):
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes are no whole record batches")
    for at, header in found:
        if not crc_is_valid(view, at, header.size_bytes):
            return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (stored crc = {header.crc})")
    return [header for _, header in found]


def assign(
    view: memoryview, headers: list[BatchHeader], *, offset: int, leader_epoch: int, settings: LogSettings, now_ms: int
) -> list[BatchHeader]:
    """Number the batches that fill `view` from `offset` on; their headers as they are then."""
    at, is_broker_time, stored = 0, settings.is_log_append_time, []
    for header in headers:
        _INT64.pack_into(view, at, offset)
        _INT32.pack_into(view, at + LEADER_EPOCH_AT, leader_epoch)
        header = header._replace(base_offset=offset, leader_epoch=leader_epoch)
        if is_broker_time or header.is_log_append_time:
            attributes = header.attributes & ~LOG_APPEND_TIME_BIT | is_broker_time * LOG_APPEND_TIME_BIT
            header = header._replace(attributes=attributes, max_timestamp_ms=now_ms if is_broker_time else header.max_timestamp_ms)
            HEADER.pack_into(view, at, *header)
            seal(view[at : at + header.size_bytes])
        stored.append(header)
        at += header.size_bytes
        offset = header.next_offset
    return stored


PRODUCER: Final = "producer"
_CODECS: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
# Kafka's defaults stand for its libraries' own ways: gzip's usual level, and LZ4's fast compressor, which has no level.
_GZIP_DEFAULT: Final = -1
_LZ4_DEFAULT: Final = 9
_LZ4_FAST: Final = 0


def needs_recompression(header: BatchHeader, settings: LogSettings) -> bool:
    """Whether the topic stores another codec than the batch has."""
    return settings.compression_type != PRODUCER and header.attributes & CODEC_MASK != _CODECS[settings.compression_type]


def recompress(header: BatchHeader, section: Inflated, settings: LogSettings) -> tuple[BatchHeader, memoryview] | LogRefusal:
    """A sound client's batch, whose records are `section` without compression, as the topic stores it; LogRefusal when it gets too large.

    Offsets, times, kind of timestamp, producer, epoch and sequence stay; attributes without a meaning in a client's batch go, as in Kafka.
    """
    codec = _CODECS[settings.compression_type]
    if header.record_count * RECORD_BYTES_MIN > len(section):
        message = f"{len(section)} bytes cannot hold the {header.record_count} records that the batch claims"
        return LogRefusal(ErrorCode.INVALID_RECORD, message)
    if codec is NONE and (too_large := size_refusal(HEADER_BYTES + len(section), settings)) is not None:
        return too_large
    attributes = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT) | codec
    stored = join_batch(header._replace(attributes=attributes), compress(codec, section, _level(codec, settings)))
    return size_refusal(len(stored), settings) or (BatchHeader._make(HEADER.unpack_from(stored)), memoryview(stored))


def _level(codec: Codec, settings: LogSettings) -> int | None:
    match codec:
        case Codec.GZIP:
            return None if settings.compression_gzip_level == _GZIP_DEFAULT else settings.compression_gzip_level
        case Codec.LZ4:
            return _LZ4_FAST if settings.compression_lz4_level == _LZ4_DEFAULT else settings.compression_lz4_level
        case Codec.ZSTD:
            return settings.compression_zstd_level
    return None


Accepted = tuple[BatchHeader, memoryview]
"""A batch that may be numbered and stored, with its header."""


@dataclass(frozen=True, slots=True)
class UnreadBatch:
    """A batch whose header and checksum are sound, and whose records must be read, by `settings`, before it may be appended.

    `batch` is a view into what the client sent: a caller that keeps this longer than those bytes are valid takes a `copy`.
    """

    header: BatchHeader
    batch: memoryview
    settings: LogSettings
    now_ms: int

    def copy(self) -> "UnreadBatch":
        """The same with bytes of its own."""
        return UnreadBatch(self.header, memoryview(bytearray(self.batch)), self.settings, self.now_ms)

    def decompress(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Inflated | LogRefusal | None:
        """The records without compression; None when they take more than `bytes_max` bytes, which may still be allowed. Any thread."""
        try:
            section = inflate(self.header.codec, self.batch[HEADER_BYTES:], output_bytes_max=bytes_max)
        except PeerError as error:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        if section is None and bytes_max >= DECOMPRESSED_BYTES_MAX:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(too_much(self.header.codec, bytes_max)))
        return section

    def read(self, section: Inflated | LogRefusal | None = None, *, check: CheckRecords = check_records) -> Accepted | LogRefusal:
        """The batch as it may be stored. `section`: what `decompress` gave, if it was called. Any thread."""
        header, settings = self.header, self.settings
        is_recompressed = needs_recompression(header, settings)
        if section is None and is_recompressed:
            section = self.decompress()
            assert section is not None, "without a bound there is a section, or a refusal"
        if isinstance(section, LogRefusal):
            return section
        refused = self._record_refusal(section, check) or size_refusal(len(self.batch), settings)
        if refused is not None:
            return refused
        if not is_recompressed:
            return header, self.batch
        assert section is not None, "it was decompressed above"
        return recompress(header, section, settings)

    def _record_refusal(self, section: Inflated | None, check: CheckRecords) -> LogRefusal | None:
        if not needs_record_checks(self.header, self.settings, self.now_ms):
            return None
        records = Compressed(self.header.codec, self.batch[HEADER_BYTES:]) if section is None else section
        try:
            return record_refusal(self.header, records, self.settings, self.now_ms, check)
        except PeerError as error:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def accept(batches: memoryview, settings: LogSettings, now_ms: int) -> Accepted | LogRefusal | UnreadBatch:
    """The one batch in `batches`, with its header, as it may be numbered and stored; a view into `batches` where nothing changes."""
    header = read_client_batch(batches)
    if isinstance(header, LogRefusal):
        return header
    batch = batches if header.size_bytes == len(batches) else batches[: header.size_bytes]
    refused = header_refusal(header, batch, settings)
    if refused is not None:
        return refused
    if needs_record_checks(header, settings, now_ms) or (settings.compression_type != PRODUCER and needs_recompression(header, settings)):
        return UnreadBatch(header, batch, settings, now_ms)
    if len(batch) > settings.segment_bytes:
        return size_refusal(len(batch), settings) or (header, batch)
    return header, batch
