"""A Produce request: topics, partitions, and their records where the socket put them; and the malformed parts that Kafka refuses at once.

It appends nothing and judges no batch: it sees only what makes Kafka refuse the whole request before it looks at single partitions.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.metadata.topics import Topic
from ottla.core.records.batch import CODEC_MASK, MAGIC, TRANSACTIONAL_BIT
from ottla.core.records.compression import ZSTD
from ottla.core.wire.reader import Reader
from ottla.storage.log.validation import LogRefusal, read_client_batch, whole_batch

FIRST_VERSION_WITH_ZSTD: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
PARTITIONS_MAX: Final = 20_000
"""Partitions, and topics, in one request. A producer's default request, 1 MiB, holds 14,000 batches of the smallest size."""
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 5
# A batch's length, its format and the low byte of its attributes.
_SIGNS: Final = Struct(">8xi4xb5xB")
_PLAUSIBLE_LENGTHS: Final = range(14, (1 << 31) - 12)


class TopicRecords(NamedTuple):
    """One topic of a request: what it is called there, what is known by that name, and number and records of each partition."""

    key: bytes | str
    topic: Topic | None
    partitions: list[tuple[int, memoryview]]


def read_topics(read: Reader, version: int, by_name: Mapping[str, Topic], by_id: Mapping[bytes, Topic]) -> tuple[list[TopicRecords], bool]:
    """The topics of a request from version 3 on, and whether `refusal_of_all` must be asked; PeerError where it ends too early.

    The records are views into the reader's buffer.
    """
    buffer = read.buffer
    assert isinstance(buffer, memoryview)
    topics, needs_request_check = [], False
    left = PARTITIONS_MAX
    for _ in range(_bounded(read.count(_TOPIC_BYTES_MIN), PARTITIONS_MAX)):
        key: bytes | str
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            key = read.raw(16)
            topic = by_id.get(key)
        else:
            key = read.string()
            topic = by_name.get(key)
        partitions = []
        count = _bounded(read.count(_PARTITION_BYTES_MIN), left)
        left -= count
        for _ in range(count):
            number = read.int32()
            length = read.length()
            start = read.at
            read.skip(max(length, 0))
            partitions.append((number, buffer[start : read.at]))
            needs_request_check = needs_request_check or length < _SIGNS.size or _needs_request_check(*_SIGNS.unpack_from(buffer, start))
            read.skip_tagged_fields()
        read.skip_tagged_fields()
        topics.append(TopicRecords(key, topic, partitions))
    return topics, needs_request_check


def _bounded(count: int, at_most: int) -> int:
    if count > at_most:
        raise PeerError(f"a Produce request with more than {PARTITIONS_MAX} topics or partitions: send fewer at a time")
    return count


def _needs_request_check(length: int, magic: int, attributes: int) -> bool:
    return magic != MAGIC or bool(attributes & TRANSACTIONAL_BIT) or attributes & CODEC_MASK > ZSTD or length not in _PLAUSIBLE_LENGTHS


def refusal_of_all(version: int, transactional_id: str | None, topics: list[TopicRecords]) -> LogRefusal | None:
    """Why nothing of a request may be appended, because of one of its batches; None when each partition is judged alone."""
    for topic in topics:
        for _, records in topic.partitions:
            refused = _request_error(version, transactional_id, records)
            if refused is not None:
                return refused
    return None


def _request_error(version: int, transactional_id: str | None, records: memoryview) -> LogRefusal | None:
    """Kafka looks for transactional records first, and walks the batches for that; only then it looks at codecs, in old versions."""
    size = whole_batch(records, 0)
    if size is None or isinstance(size, LogRefusal):
        return size
    if size < _SIGNS.size:
        return None
    _, magic, attributes = _SIGNS.unpack_from(records)
    if magic != MAGIC:
        return None
    if attributes & TRANSACTIONAL_BIT and transactional_id is None:
        message = "Transactional records came in a request without a transactional id"
        return LogRefusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message, before_log=True)
    if attributes & CODEC_MASK > ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {attributes & CODEC_MASK}", before_log=True)
    return None


def refusal_of_partition(version: int, acks: int, topic: Topic, records: memoryview) -> LogRefusal | None:
    """Why a partition's records may not even come to its log; None when the log is to judge.

    It need not be asked for a topic of users in version 7 or later with one of the three acks that there are.
    """
    header = read_client_batch(records)
    if isinstance(header, LogRefusal):
        return header
    if version < FIRST_VERSION_WITH_ZSTD and header.attributes & CODEC_MASK == ZSTD:
        message = "Produce requests with version less than 7 are not allowed to use ZStandard compression"
        return LogRefusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message, before_log=True)
    if acks not in (-1, 0, 1):
        return LogRefusal(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1", before_log=True)
    if topic.is_internal:
        return LogRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}", before_log=True)
    return None
