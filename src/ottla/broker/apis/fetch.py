"""Fetch (1), v4-18: hands out record batches as they lie in the log, and waits at its end for more.

Version notes: v7+ knows fetch sessions (KIP-227), which we do not keep: every answer has session id 0, and clients then send full
requests; v12+ is flexible; v13+ names topics by id; v15+ moved the replica's id, which only followers send. An answer is a few small heads
around whole ranges of the log's bytes; nothing is copied or parsed per record.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.delayed import Delayed
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.broker.partitions import Partition
from ottla.core.catalogue.catalogue import Topic
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster

READ_COMMITTED = 1
ANSWER_BYTES_ENOUGH = 256 * 1024
"""No more in one answer unless it must be: what fits the processor's caches on both sides goes through faster (benchmarks/RESULTS.md)."""


@dataclass(slots=True)
class _Asked:
    """One partition of a request: `error` is set where it cannot be read at all."""

    number: int
    offset: int
    bytes_max: int
    partition: Partition | None
    error: ErrorCode


@dataclass(slots=True)
class _Found:
    """One partition of an answer."""

    asked: _Asked
    error: ErrorCode
    records: bytes


Topics = list[tuple[bytes | str, list[_Asked]]]
Answer = list[tuple[bytes | str, list[_Found]]]


def handle(cluster: "Cluster", request: Request) -> None:
    """Answers at once when there is enough, something is wrong, or nobody wants to wait; otherwise when the log has grown or time is up."""
    message = request.message
    session_id = getattr(message, "session_id", 0)
    if session_id != 0:
        request.reply_body(_encode(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []))
        return
    topics = [_topic(cluster, request.version, asked) for asked in message.topics]
    bytes_max = min(message.max_bytes, cluster.config.number("fetch.max.bytes"), max(message.min_bytes, ANSWER_BYTES_ENOUGH))
    answer = _read(topics, bytes_max)
    wait_s = message.max_wait.total_seconds()
    if wait_s <= 0 or not topics or _is_enough(answer, message.min_bytes):
        request.reply_body(_encode(request, ErrorCode.NONE, answer))
        return
    _park(request, topics, bytes_max, message.min_bytes, wait_s)


def _park(request: Request, topics: Topics, bytes_max: int, bytes_min: int, wait_s: float) -> None:
    partitions = [asked.partition for _, group in topics for asked in group if asked.partition is not None]

    def try_again(time_is_up: bool) -> bool:
        answer = _read(topics, bytes_max)
        if not time_is_up and not _is_enough(answer, bytes_min):
            return False
        request.reply_body(_encode(request, ErrorCode.NONE, answer))
        return True

    Delayed(asyncio.get_running_loop(), partitions, try_again, wait_s)


def _topic(cluster: "Cluster", version: int, asked: Any) -> tuple[bytes | str, list[_Asked]]:
    key: bytes | str
    if version >= 13:
        key = asked.topic_id.bytes if asked.topic_id else bytes(16)
        topic, missing = cluster.catalogue.topics_by_id.get(key), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        key = asked.topic
        topic, missing = cluster.catalogue.topics.get(asked.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return key, [_partition(cluster, topic, missing, part) for part in asked.partitions]


def _partition(cluster: "Cluster", topic: Topic | None, missing: ErrorCode, part: Any) -> _Asked:
    asked = _Asked(part.partition, part.fetch_offset, part.partition_max_bytes, None, ErrorCode.NONE)
    if topic is None:
        asked.error = missing
        return asked
    try:
        asked.partition = cluster.partitions.get(topic, part.partition)
    except StorageError as error:
        asked.error = error.code
        return asked
    epoch = getattr(part, "current_leader_epoch", -1)
    if asked.partition is None:
        asked.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif epoch > 0:  # every leader is at epoch 0
        asked.error = ErrorCode.UNKNOWN_LEADER_EPOCH
    return asked


def _read(topics: Topics, bytes_max: int) -> Answer:
    """Reads in the request's order while there is room; the very first batch comes even if it is too large."""
    answer: Answer = []
    left = bytes_max
    nothing_yet = True
    for key, group in topics:
        found = []
        for asked in group:
            got = _read_partition(asked, min(asked.bytes_max, left), nothing_yet)
            nothing_yet = nothing_yet and not got.records
            left -= len(got.records)
            found.append(got)
        answer.append((key, found))
    return answer


def _read_partition(asked: _Asked, bytes_max: int, at_least_one: bool) -> _Found:
    if asked.error is not ErrorCode.NONE or asked.partition is None:
        return _Found(asked, asked.error, b"")
    if asked.partition.deleted:  # while the request waited
        return _Found(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")
    if bytes_max <= 0 and not at_least_one:
        return _Found(asked, ErrorCode.NONE, b"")
    try:
        records = asked.partition.log.read(asked.offset, bytes_max, at_least_one=at_least_one)
    except StorageError as error:
        return _Found(asked, error.code, b"")
    return _Found(asked, ErrorCode.OFFSET_OUT_OF_RANGE if records is None else ErrorCode.NONE, records or b"")


def _is_enough(answer: Answer, bytes_min: int) -> bool:
    total = 0
    for _, group in answer:
        for found in group:
            if found.error is not ErrorCode.NONE:
                return True
            total += len(found.records)
    return total >= bytes_min


def _encode(request: Request, error: ErrorCode, answer: Answer) -> list[Buffer]:
    """The body as pieces: heads, and between them the log's own bytes."""
    version = request.version
    committed_only = request.message.isolation_level == READ_COMMITTED
    pieces: list[Buffer] = []
    out = Packer(is_flexible(request.key, version)).int32(NO_THROTTLE_MS)
    if version >= 7:
        out.int16(error).int32(0)
    out.array(len(answer))
    for key, group in answer:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(group))
        for found in group:
            _pack_partition(out, version, found, committed_only)
            if found.records:
                pieces += [bytes(out.data), found.records]
                out.data.clear()
            out.end()
        out.end()
    pieces.append(bytes(out.end().data))
    return pieces


def _pack_partition(out: Packer, version: int, found: _Found, committed_only: bool) -> None:
    partition = found.asked.partition
    end = start = -1
    if found.error is ErrorCode.NONE and partition is not None:
        end, start = partition.log.high_watermark, partition.log.log_start_offset
    out.int32(found.asked.number).int16(found.error).int64(end).int64(end)
    if version >= 5:
        out.int64(start)
    # There are no aborted transactions. Kafka writes null for those who did not ask, and an empty list for a partition that is not there.
    out.array(0 if committed_only or partition is None else -1)
    if version >= 11:
        out.int32(-1)
    out.octets_length(len(found.records))


API = Api(key=1, versions=range(4, 19), handle=handle)
