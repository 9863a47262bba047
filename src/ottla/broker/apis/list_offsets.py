"""ListOffsets (2), v1-11: the offset for a point in time: earliest (-2), latest (-1), of the largest timestamp (-3), or at a timestamp.

A reader of what is committed sees no further than the last stable offset (KIP-98). Version notes: v2+ says which reader asks; v4+ carries
leader epochs (KIP-320); v7+ has -3 (KIP-734), v8+ earliest local (-4, the same as earliest here), v9+ latest tiered (-5), v11+ earliest
pending upload (-6): nothing is tiered, so both answer "none" as Kafka does without remote storage.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.fetch_reading import leader_epoch_error
from ottla.core.errors import ErrorCode, StorageError
from ottla.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.node import Node

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED = 1
Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
_NONE: Found = (-1, -1, -1)
"""No offset."""


def handle(node: "Node", request: Request) -> None:
    """Answers with (timestamp, offset, leader epoch) a partition; one that is named twice gets an error, once."""
    message = request.message
    committed_only = getattr(message, "isolation_level", 0) == _READ_COMMITTED
    named = Counter((topic.name, part.partition_index) for topic in message.topics for part in topic.partitions)
    topics = []
    for topic in message.topics:
        partitions = {}
        for part in topic.partitions:
            error, found = ErrorCode.INVALID_REQUEST, _NONE
            if named[topic.name, part.partition_index] == 1:
                error, found = _partition(node, request.version, topic.name, part, committed_only)
            partitions[part.partition_index] = _answer(part.partition_index, error, found)
        topics.append({"name": topic.name, "partitions": tuple(partitions.values())})
    request.reply({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _answer(number: int, error: ErrorCode, found: Found) -> dict[str, Any]:
    timestamp_ms, offset, leader_epoch = found
    return {"partition_index": number, "error_code": error, "timestamp": timestamp_ms, "offset": offset, "leader_epoch": leader_epoch}


def _partition(node: "Node", version: int, topic: str, part: Any, committed_only: bool) -> tuple[ErrorCode, Found]:
    try:
        partition = node.led(topic, part.partition_index)
        if isinstance(partition, ErrorCode):
            return partition, _NONE
        if version < _FIRST_VERSION.get(part.timestamp, 1) or part.timestamp < EARLIEST_PENDING_UPLOAD:
            return ErrorCode.UNSUPPORTED_VERSION, _NONE
        error = leader_epoch_error(getattr(part, "current_leader_epoch", -1), partition.log.leader_epoch)
        return error, _NONE if error is not ErrorCode.NONE else _find(partition.log, part.timestamp, committed_only)
    except StorageError as failed:
        return failed.code, _NONE


def _find(log: PartitionLog, timestamp_ms: int, committed_only: bool) -> Found:
    end = log.last_stable_offset if committed_only else log.high_watermark
    if timestamp_ms == LATEST:
        return -1, end, log.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(log, log.log_start_offset)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NONE
    found = log.max_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp_ms)
    return _NONE if found is None or found[1] >= end else (*found, _epoch_at(log, found[1]))


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """The leader epoch that the record at `offset` was written in; the present one where none was written yet."""
    known = [start.epoch for start in log.leader_epochs if start.start_offset <= offset]
    return known[-1] if known else log.leader_epoch


API = Api(key=2, versions=range(1, 12), handle=handle)
