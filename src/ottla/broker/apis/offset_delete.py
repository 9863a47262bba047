"""OffsetDelete (47), v0: deletes a group's offsets of topics that it is not subscribed to (KIP-496)."""

from typing import Any

from ottla.broker.coordination.group_router import GroupRouter
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetDelete
from ottla.core.groups.effects import OffsetDeleteResult, Result
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.wire.api_keys import ApiKey


def handle(request: Request, *, cluster_metadata: ClusterMetadata, groups: GroupRouter) -> None:
    """Answer for partitions that do not exist itself and ask the group's coordinator for the rest."""
    message = request.message
    known = [
        (topic.name, part.partition_index)
        for topic in message.topics
        for part in topic.partitions
        if _exists(cluster_metadata, topic.name, part.partition_index)
    ]
    command = OffsetDelete(
        reply_to=groups.expect_reply(lambda result: _answer(request, known, result), request),
        group_id=message.group_id,
        partitions=tuple(known),
    )
    groups.run(message.group_id, command)


def _exists(cluster_metadata: ClusterMetadata, name: str, number: int) -> bool:
    topic = cluster_metadata.topics.get(name)
    return topic is not None and 0 <= number < len(topic.leaders)


def _answer(request: Request, known: list[tuple[str, int]], result: Result) -> None:
    assert isinstance(result, OffsetDeleteResult)
    errors = dict(zip(known, result.errors))
    topics: list[dict[str, Any]] = []
    for topic in request.message.topics if result.error is ErrorCode.NONE else ():
        partitions = [
            {
                "partition_index": part.partition_index,
                "error_code": errors.get((topic.name, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            }
            for part in topic.partitions
        ]
        topics.append({"name": topic.name, "partitions": partitions})
    request.reply({"error_code": result.error, "throttle_time": NO_THROTTLE_MS, "topics": topics})


API = Api(key=ApiKey.OFFSET_DELETE, versions=range(1), handle=handle, elements_max=10_000)
