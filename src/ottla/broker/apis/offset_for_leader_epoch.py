"""OffsetForLeaderEpoch (23), v2-4: the end offset of a leader epoch, from which a consumer detects a truncated log (KIP-320).

Version notes: v3+ carries the replica's id, which only followers set. A single replica is never truncated: epochs end where the next
one starts.
"""

from typing import Any

from ottla.broker.cluster.brokers import Node, PartitionOpening
from ottla.broker.fetch.partition_reading import leader_epoch_error
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import Work
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, node: Node, partition_opening: PartitionOpening) -> None:
    """Answer with (epoch, end offset) a partition; -1 and -1 where the epoch says nothing here; in pieces."""
    named = ((topic.topic, part.partition) for topic in request.message.topics for part in topic.partitions)
    partition_opening.then(request, named, lambda: _answer(node, request))


def _answer(node: Node, request: Request) -> Work:
    topics = (
        {"topic": topic.topic, "partitions": (_partition(node, topic.topic, part) for part in topic.partitions)}
        for topic in request.message.topics
    )
    return request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _partition(node: Node, topic: str, part: Any) -> dict[str, Any]:
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


def _refuse(topic: Any, error: ErrorCode) -> dict[str, Any]:
    partitions = [{"error_code": error, "partition": part.partition, "leader_epoch": -1, "end_offset": -1} for part in topic.partitions]
    return {"topic": topic.topic, "partitions": partitions}


API = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=range(2, 5),
    handle=handle,
    access=(
        Access(
            Operation.DESCRIBE, ResourceType.TOPIC, "topics[].topic", refuse=_refuse, answers="topics", or_cluster=Operation.CLUSTER_ACTION
        ),
    ),
)
