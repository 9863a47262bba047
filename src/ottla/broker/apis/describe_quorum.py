"""DescribeQuorum (55), v0-2: the quorum of the cluster metadata, which has one voter: the first broker of the process (KIP-595).

The other brokers that run are observers, and have every record: all of them share the log. Version notes: v1+ has times of fetches
(KIP-836), v2+ ids of data directories and error messages (KIP-853). The voter has no listener for controllers, and so shows none.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.config import BrokerConfig
from ottla.metadata.topics import CLUSTER_METADATA
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_UNKNOWN: Final = {
    "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "error_message": "This server does not host this topic-partition.",
    "leader_id": 0,
    "leader_epoch": 0,
    "high_watermark": 0,
    "current_voters": (),
    "observers": (),
}


def handle(
    request: Request,
    *,
    brokers: Brokers,
    clock: Callable[[], int],
    config: BrokerConfig,
    metadata_log: MetadataLog,
    scheduler: RequestScheduler,
) -> None:
    """Answer with the quorum if the request names its partition alone, as Apache Kafka does; all others are unknown partitions."""
    asked = request.message.topics
    values: dict[str, Any] = {"error_code": ErrorCode.NONE, "error_message": "", "nodes": ()}
    if _is_the_quorum(asked):
        values["topics"] = [{"topic_name": CLUSTER_METADATA, "partitions": [_quorum(brokers, clock(), config.node_id, metadata_log)]}]
        values["nodes"] = [{"node_id": config.node_id, "listeners": ()}]
    else:
        values["topics"] = ({"topic_name": topic.topic_name, "partitions": _unknown(topic.partitions)} for topic in asked)
    scheduler.run(request, request.reply_in_pieces(values))


def _is_the_quorum(asked: Sequence[Any]) -> bool:
    if len(asked) != 1 or len(asked[0].partitions) != 1:
        return False
    return bool(asked[0].topic_name == CLUSTER_METADATA and asked[0].partitions[0].partition_index == 0)


def _unknown(partitions: Sequence[Any]) -> Iterator[dict[str, Any]]:
    return ({"partition_index": each.partition_index} | _UNKNOWN for each in partitions)


def _quorum(brokers: Brokers, now_ms: int, voter_id: int, metadata_log: MetadataLog) -> dict[str, Any]:
    def replica(node_id: int) -> dict[str, Any]:
        return {
            "replica_id": node_id,
            "replica_directory_id": uuid.UUID(bytes=metadata_log.cluster_metadata.directory_id),
            "log_end_offset": metadata_log.log.log_end_offset,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }

    return {
        "partition_index": 0,
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "leader_id": voter_id,
        "leader_epoch": metadata_log.log.leader_epoch,
        "high_watermark": metadata_log.log.log_end_offset,
        "current_voters": [replica(voter_id)],
        "observers": [replica(node.id) for node in brokers.nodes.values() if node.is_alive and node.id != voter_id],
    }


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"error_code": error, "error_message": None, "topics": (), "nodes": ()})


API = Api(
    key=ApiKey.DESCRIBE_QUORUM, versions=range(3), handle=handle, access=(Access(Operation.DESCRIBE, ResourceType.CLUSTER, refuse=_refuse),)
)
