"""May a client append this batch? Kafka's checks, in Kafka's order, on the header and the checksum alone.

Only a compacted topic makes it look at single records (they need keys). It writes nothing and knows nothing of offsets or producers.
Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    crc_is_valid,
    decode_batch,
)
from ottla.core.records.compression import Codec
from ottla.storage.settings import LogSettings

_MAGIC_AT: Final = 16
_LENGTH: Final = Struct(">8xi")
# What a message of format 0 has at least; Kafka looks for that before it looks at the format.
_OLDER_LENGTH_MIN: Final = 14


class Appended(NamedTuple):
    """A batch lies in the log (or lay there already, when a producer repeated it).

    log_append_time_ms: -1 unless the topic's timestamps are the broker's.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Refused(NamedTuple):
    """Nothing was appended. `record_errors`: (number in the batch, sentence) of single records at fault."""

    error: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()


def read_client_batch(batches: memoryview) -> BatchHeader | Refused:
    """The header of the one batch that a client may send for a partition. A partial batch behind it does not count, as in Kafka."""
    first = _whole_batch(batches, 0)
    if first is None:
        return Refused(ErrorCode.INVALID_RECORD, "A produce request must hold exactly one record batch per partition; there is none")
    if isinstance(first, Refused):
        return first
    if batches[_MAGIC_AT] != MAGIC:
        return Refused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests are only allowed to contain record batches of format {MAGIC}; this is format {batches[_MAGIC_AT]}",
        )
    if first != len(batches):
        second = _whole_batch(batches, first)
        if isinstance(second, Refused):
            return second
        if second is not None:
            return Refused(ErrorCode.INVALID_RECORD, "A produce request must hold exactly one record batch per partition; there are more")
    if first < HEADER_BYTES:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (its {first} bytes are too few for a header)")
    return BatchHeader._make(HEADER.unpack_from(batches))


def _whole_batch(batches: memoryview, at: int) -> int | Refused | None:
    """The size of the batch or older message at `at`; None when it is not all there."""
    there = len(batches) - at
    if there < LENGTH_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(batches, at)
    if length < _OLDER_LENGTH_MIN:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({_OLDER_LENGTH_MIN})")
    if there <= _MAGIC_AT:
        return None
    if batches[at + _MAGIC_AT] > MAGIC:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {batches[at + _MAGIC_AT]}")
    size: int = length + LENGTH_OVERHEAD_BYTES
    return size if size <= there else None


def refusal(header: BatchHeader, batch: memoryview, settings: LogSettings, now_ms: int) -> Refused | None:
    """Why a client's batch, which fills `batch`, may not be appended; None when it may."""
    size = len(batch)
    if header.base_offset != 0:
        return Refused(ErrorCode.INVALID_RECORD, f"The baseOffset of the record batch should be 0, but it is {header.base_offset}")
    if size > settings.max_message_bytes:
        return Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {size} bytes, which exceeds the maximum configured value of {settings.max_message_bytes}",
        )
    if not crc_is_valid(batch, 0, size):
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (stored crc = {header.crc})")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        return Refused(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {header.record_count}",
        )
    if header.is_control:
        return Refused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.producer_id >= 0 > header.base_sequence:
        return Refused(
            ErrorCode.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}",
        )
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        return Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {header.attributes & CODEC_MASK}")
    if size > settings.segment_bytes:
        return Refused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch size is {size} bytes, which exceeds the maximum configured segment size of {settings.segment_bytes}",
        )
    return _bad_time(header, settings, now_ms) or (_keyless(batch) if settings.is_compacted else None)


def _bad_time(header: BatchHeader, settings: LogSettings, now_ms: int) -> Refused | None:
    """Kafka looks at each record's time; the header's first and largest stand for them here, so no record is read."""
    if settings.is_log_append_time:
        if header.is_log_append_time:
            return Refused(ErrorCode.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime")
        return None
    if header.max_timestamp_ms == NO_TIMESTAMP:
        return None
    ahead_ms, behind_ms = header.max_timestamp_ms - now_ms, now_ms - header.base_timestamp_ms
    if ahead_ms <= settings.message_timestamp_after_max_ms and behind_ms <= settings.message_timestamp_before_max_ms:
        return None
    return Refused(
        ErrorCode.INVALID_TIMESTAMP,
        f"Timestamps {header.base_timestamp_ms} to {header.max_timestamp_ms} are out of range: they should lie within"
        f" [{now_ms - settings.message_timestamp_before_max_ms}, {now_ms + settings.message_timestamp_after_max_ms}]",
    )


def _keyless(batch: memoryview) -> Refused | None:
    try:
        records = decode_batch(batch, verify_crc=False)
    except PeerError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
    faults = tuple(
        (number, "Compacted topic cannot accept message without key") for number, record in enumerate(records) if record.key is None
    )
    return Refused(ErrorCode.INVALID_RECORD, "One or more records have been rejected", faults) if faults else None
