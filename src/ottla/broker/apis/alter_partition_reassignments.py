"""AlterPartitionReassignments (45), v0-1: gives partitions other replicas, or cancels that (KIP-455).

The brokers of a process share the logs: a reassignment is complete when its response is sent, and there is none to cancel. Version notes:
v1+ can refuse another number of replicas (KIP-860).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ottla.broker.cluster.leadership import Decide, Leadership
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import reassign
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, cluster_metadata: ClusterMetadata, leadership: Leadership, scheduler: RequestScheduler) -> None:
    """Answer with one result a partition, when all have their replicas: some hundred partitions change at once."""
    scheduler.run(request, _answer(cluster_metadata, leadership, request))


def _answer(cluster_metadata: ClusterMetadata, leadership: Leadership, request: Request) -> Work:
    asked = request.message.topics
    may_change_count = getattr(request.message, "allow_replication_factor_change", True)
    changed = yield from leadership.change_in_pieces(_decisions(cluster_metadata, asked, may_change_count=may_change_count))
    yield from request.reply_in_pieces(
        {
            "throttle_time": NO_THROTTLE_MS,
            "allow_replication_factor_change": may_change_count,
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "responses": _responses(asked, (refused for _, refused in changed)),
        }
    )


def _decisions(
    cluster_metadata: ClusterMetadata, asked: Sequence[Any], *, may_change_count: bool
) -> Iterator[tuple[TopicPartition, Decide]]:
    for topic in asked:
        for each in topic.partitions:
            decide = partial(reassign, cluster_metadata, topic.name, each.partition_index, each.replicas, may_change_count=may_change_count)
            yield TopicPartition(topic.name, each.partition_index), decide


def _responses(asked: Sequence[Any], refused: Iterator[ApiError | None]) -> Iterator[dict[str, Any]]:
    for topic in asked:
        partitions = zip(topic.partitions, islice(refused, len(topic.partitions)), strict=True)
        yield {"name": topic.name, "partitions": (_response(each.partition_index, refusal) for each, refusal in partitions)}


def _response(number: int, refused: ApiError | None) -> dict[str, Any]:
    return {
        "partition_index": number,
        "error_code": refused.error if refused else ErrorCode.NONE,
        "error_message": refused.message if refused else None,
    }


def _refuse(request: Request, error: ErrorCode) -> None:
    may_change_count = getattr(request.message, "allow_replication_factor_change", True)
    values = {"throttle_time": NO_THROTTLE_MS, "error_code": error, "error_message": None, "responses": ()}
    request.reply(values | {"allow_replication_factor_change": may_change_count})


API = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=range(2),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
