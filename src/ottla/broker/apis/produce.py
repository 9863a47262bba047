"""Produce (0), v3-13: appends record batches. They are checked and written where the socket put them, never parsed per record.

Version notes: v0-2 are advertised and refused, as Kafka does, because clients conclude from them that compression works; v5+ answers with
the log's start; v7+ takes zstd (KIP-110); v8+ answers with an error message; v9+ is flexible; v13+ names topics by id (KIP-516). acks=0
has no answer; -1 and 1 are the same here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.broker.partitions import Partition
from ottla.core.catalogue.catalogue import INTERNAL_TOPICS, Topic
from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.records.compression import ZSTD
from ottla.core.wire import Reader
from ottla.storage.partition_log import Appended, Refused

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster

_TOPIC_BYTES_MIN = 3
_PARTITION_BYTES_MIN = 5
_CODEC_AT = 22
"""The low byte of a batch's attributes."""
_CODEC_BITS = 7
FIRST_VERSION_WITH_ZSTD = 7
_OUT_OF_STEP = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID)


@dataclass(frozen=True, slots=True)
class _Written:
    """One partition's result. `log_start_offset` is -1 where nothing is said of the log."""

    number: int
    outcome: Appended | Refused
    log_start_offset: int = -1


def handle(cluster: "Cluster", request: Request) -> None:
    """Appends partition by partition, in the request's order, then answers for all."""
    flexible = is_flexible(request.key, request.version)
    read = Reader(request.buffer, request.body_at)
    transactional_id = read.compact_nullable_string() if flexible else read.nullable_string()
    acks = read.int16()
    read.int32()  # timeout: nothing here waits for a replica
    refused = None
    if acks not in (-1, 0, 1):
        refused = Refused(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    elif transactional_id is not None:
        refused = Refused(ErrorCode.INVALID_REQUEST, "Ottla does not serve transactions yet")
    results: list[tuple[bytes | str, list[_Written]]] = []
    for _ in range(read.count(_TOPIC_BYTES_MIN, compact=flexible)):
        results.append(_write_topic(cluster, request.version, read, flexible, refused))
    if acks == 0:
        if any(isinstance(written.outcome, Refused) for _, topic in results for written in topic):
            # The producer waits for no answer: a closed connection is how it learns that something is wrong, as with Kafka.
            raise PeerError("a Produce request with acks=0 was refused")
        request.no_reply()
        return
    request.reply_body([_answer(request.version, flexible, results)])


def _write_topic(
    cluster: "Cluster", version: int, read: Reader, flexible: bool, refused: Refused | None
) -> tuple[bytes | str, list[_Written]]:
    key: bytes | str
    if version >= 13:
        key = read.raw(16)
        topic, missing = cluster.catalogue.topics_by_id.get(key), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        key = read.compact_string() if flexible else read.string()
        topic, missing = cluster.catalogue.topics.get(key), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused is None and topic is None:
        refused = Refused(missing, "This server does not host this topic-partition.")
    elif refused is None and topic is not None and topic.name in INTERNAL_TOPICS:
        refused = Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    written = []
    for _ in range(read.count(_PARTITION_BYTES_MIN, compact=flexible)):
        number = read.int32()
        length = read.uvarint() - 1 if flexible else read.int32()
        start = read.at
        read.skip(max(length, 0))
        written.append(_Written(number, refused) if refused else _append(cluster, version, topic, number, _records(read, start)))
        if flexible:
            read.tagged_fields()
    if flexible:
        read.tagged_fields()
    return key, written


def _records(read: Reader, start: int) -> memoryview:
    """The records' bytes, where they lie in the request."""
    buffer = read.buffer
    assert isinstance(buffer, memoryview)
    return buffer[start : read.at]


def _append(cluster: "Cluster", version: int, topic: Topic | None, number: int, records: memoryview) -> _Written:
    assert topic is not None
    if version < FIRST_VERSION_WITH_ZSTD and len(records) > _CODEC_AT and records[_CODEC_AT] & _CODEC_BITS == ZSTD:
        message = "Produce requests with version less than 7 are not allowed to use ZStandard compression"
        return _Written(number, Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message))
    try:
        partition: Partition | None = cluster.partitions.get(topic, number)
        if partition is None:
            return _Written(number, Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."))
        outcome = partition.log.append(records, now_ms=cluster.clock())
    except StorageError as error:
        return _Written(number, Refused(error.code, str(error)))
    if isinstance(outcome, Appended):
        partition.grew()
        return _Written(number, outcome, outcome.log_start_offset)
    # Only a producer that is out of step is told where the log begins, so that it can find out what it lost.
    return _Written(number, outcome, partition.log.log_start_offset if outcome.error in _OUT_OF_STEP else -1)


def _answer(version: int, flexible: bool, results: list[tuple[bytes | str, list[_Written]]]) -> bytearray:
    out = Packer(flexible).array(len(results))
    for key, partitions in results:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(partitions))
        for written in partitions:
            _pack_partition(out, version, written)
        out.end()
    return out.int32(NO_THROTTLE_MS).end().data


def _pack_partition(out: Packer, version: int, written: _Written) -> None:
    outcome = written.outcome
    out.int32(written.number)
    if isinstance(outcome, Appended):
        out.int16(ErrorCode.NONE).int64(outcome.base_offset).int64(outcome.log_append_time_ms)
        message = None
    else:
        out.int16(outcome.error).int64(-1).int64(-1)
        message = outcome.message
    if version >= 5:
        out.int64(written.log_start_offset)
    if version >= 8:
        _pack_record_errors(out, outcome)
        out.nullable_string(message)
    out.end()


def _pack_record_errors(out: Packer, outcome: Appended | Refused) -> None:
    """The single records at fault, by their number in the batch (v8+, KIP-467)."""
    errors = outcome.record_errors if isinstance(outcome, Refused) else ()
    out.array(len(errors))
    for number, message in errors:
        out.int32(number).nullable_string(message).end()


API = Api(key=0, versions=range(14), handle=handle, decodes_itself=True, refused=range(3))
