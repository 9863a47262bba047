"""A topic's `compression.type` other than `producer`: the batch that is stored has the topic's codec, whatever the client sent.

Bytes in, bytes out: the records section is inflated and deflated again as a whole, the single records are not read. A batch that has
the topic's codec already is not changed, whatever level its producer chose, as in Kafka. Source: Kafka's `BrokerCompressionType`,
`LogValidator`; levels by KIP-390.
"""

from typing import Final

from ottla.core.errors import ErrorCode
from ottla.core.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    join_batch,
)
from ottla.core.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, Inflated, compress
from ottla.core.records.record import RECORD_BYTES_MIN
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal, size_refusal

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
