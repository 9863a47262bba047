"""ListOffsets (2), v1-11: the offset for a point in time: earliest (-2), latest (-1), of the largest timestamp (-3), or at a timestamp.

Version notes: v7+ has -3 (KIP-734), v8+ earliest local (-4, the same as earliest here), v9+ latest tiered (-5), v11+ earliest pending
upload (-6): nothing is tiered, so both answer "none" as Kafka does without remote storage.
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode, StorageError
from ottla.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NONE = (-1, -1, -1)
"""No offset: (timestamp, offset, leader epoch)."""


def handle(cluster: "Cluster", request: Request) -> None:
    """Answers with (timestamp, offset) a partition."""
    topics = []
    for topic in request.message.topics:
        partitions = [_partition(cluster, request.version, topic.name, part) for part in topic.partitions]
        topics.append({"name": topic.name, "partitions": partitions})
    request.reply({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _partition(cluster: "Cluster", version: int, topic: str, part: Any) -> dict[str, Any]:
    error, found = ErrorCode.NONE, _NONE
    try:
        partition = cluster.partitions.by_name(topic, part.partition_index)
        if partition is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif getattr(part, "current_leader_epoch", -1) > 0:  # every leader is at epoch 0
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif version < _FIRST_VERSION.get(part.timestamp, 1) or part.timestamp < EARLIEST_PENDING_UPLOAD:
            error = ErrorCode.UNSUPPORTED_VERSION
        else:
            found = _find(partition.log, part.timestamp)
    except StorageError as failed:
        error = failed.code
    return {
        "partition_index": part.partition_index,
        "error_code": error,
        "timestamp": found[0],
        "offset": found[1],
        "leader_epoch": found[2],
    }


def _find(log: PartitionLog, timestamp_ms: int) -> tuple[int, int, int]:
    if timestamp_ms == LATEST:
        return -1, log.high_watermark, 0
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, 0
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NONE
    found = log.max_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp_ms)
    return _NONE if found is None else (found[0], found[1], 0)


API = Api(key=2, versions=range(1, 12), handle=handle)
