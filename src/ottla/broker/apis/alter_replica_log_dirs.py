"""AlterReplicaLogDirs (34), v1-2: moves replicas between data directories; there is one, and every replica is in it (KIP-113).

To move a replica to where it is succeeds; another directory gets LOG_DIR_NOT_FOUND. Version notes: v2+ is flexible.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.cluster.brokers import Node
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

PIECE: Final = 1_024
"""So many partitions are looked up before other requests continue: about a millisecond."""

_Errors = dict[str, dict[int, ErrorCode]]


def handle(request: Request, *, cluster_metadata: ClusterMetadata, log_directory: str, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a partition, in pieces; of one that is named for several directories, the last counts."""
    scheduler.run(request, _answer(cluster_metadata, log_directory, node, request))


def _answer(cluster_metadata: ClusterMetadata, log_directory: str, node: Node, request: Request) -> Work:
    errors: _Errors = defaultdict(dict)
    seen = 0
    for directory in request.message.dirs:
        for asked in directory.topics:
            for number in asked.partitions:
                is_found = directory.path == log_directory
                errors[asked.name][number] = (
                    _replica_error(cluster_metadata, node, asked.name, number) if is_found else ErrorCode.LOG_DIR_NOT_FOUND
                )
                seen += 1
                if seen % PIECE == 0:
                    yield
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": _results(errors)})


def _replica_error(cluster_metadata: ClusterMetadata, node: Node, name: str, number: int) -> ErrorCode:
    topic = cluster_metadata.topics.get(name)
    if topic is None or not 0 <= number < len(topic.replica_assignments):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if node.id in topic.replica_assignments[number].replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _results(errors: _Errors) -> Iterator[dict[str, Any]]:
    for name, by_number in errors.items():
        partitions = ({"partition_index": number, "error_code": error} for number, error in by_number.items())
        yield {"topic_name": name, "partitions": partitions}


def _refuse(request: Request, error: ErrorCode) -> None:
    errors: _Errors = defaultdict(dict)
    for topic in (topic for directory in request.message.dirs for topic in directory.topics):
        errors[topic.name].update(dict.fromkeys(topic.partitions, error))
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "results": [{**topic, "partitions": tuple(topic["partitions"])} for topic in _results(errors)],
        }
    )


API = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=range(1, 3),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
