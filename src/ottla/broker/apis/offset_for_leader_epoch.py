"""OffsetForLeaderEpoch (23), v2-4: where a leader epoch ended, so that a reader finds out whether what it read is still there (KIP-320).

Version notes: v3+ carries the replica's id, which only followers set. One replica truncates nothing: epochs end where the next one began.
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.after_opening import after_opening
from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.fetch_reading import leader_epoch_error
from ottla.broker.request_scheduler import Work
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers with (epoch, end offset) a partition; -1 and -1 where the epoch says nothing here; in pieces."""
    named = ((topic.topic, part.partition) for topic in request.message.topics for part in topic.partitions)
    after_opening(node, request, named, lambda: _answer(node, request))


def _answer(node: "Node", request: Request) -> Work:
    topics = (
        {"topic": topic.topic, "partitions": (_partition(node, topic.topic, part) for part in topic.partitions)}
        for topic in request.message.topics
    )
    return request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _partition(node: "Node", topic: str, part: Any) -> dict[str, Any]:
    epoch, end_offset = -1, -1
    try:
        partition = node.led(topic, part.partition)
        if isinstance(partition, ErrorCode):
            error = partition
        else:
            error = leader_epoch_error(part.current_leader_epoch, partition.log.leader_epoch)
            if error is ErrorCode.NONE:
                epoch, end_offset = partition.log.end_offset_for_epoch(part.leader_epoch)
    except StorageError as failed:
        error = failed.code
    return {"error_code": error, "partition": part.partition, "leader_epoch": epoch, "end_offset": end_offset}


API = Api(key=23, versions=range(2, 5), handle=handle)
