"""OffsetDelete (47), v0: deletes a group's offsets of topics that it is not subscribed to (KIP-496)."""

from typing import Any

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.groups.commands import OffsetDelete, OffsetDeleteResult, Result
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, cluster_metadata: ClusterMetadata, groups: GroupRouter) -> None:
    """Answer for partitions that do not exist itself and ask the group's coordinator for the rest."""
    message = request.message
    names = {topic.name for topic in message.topics}
    refused = {name for name in names if not request.session.may(Operation.READ, ResourceType.TOPIC, name)}
    known = [
        (topic.name, part.partition_index)
        for topic in message.topics
        for part in topic.partitions
        if topic.name not in refused and _exists(cluster_metadata, topic.name, part.partition_index)
    ]
    command = OffsetDelete(
        reply_to=groups.expect_reply(lambda result: _answer(request, known, refused, result), request),
        group_id=message.group_id,
        partitions=tuple(known),
    )
    groups.run(message.group_id, command)


def _exists(cluster_metadata: ClusterMetadata, name: str, number: int) -> bool:
    topic = cluster_metadata.topics.get(name)
    return topic is not None and 0 <= number < len(topic.leaders)


def _answer(request: Request, known: list[tuple[str, int]], refused: set[str], result: Result) -> None:
    assert isinstance(result, OffsetDeleteResult)
    errors = dict(zip(known, result.errors))
    topics: list[dict[str, Any]] = []
    for topic in request.message.topics if result.error is ErrorCode.NONE else ():
        missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic.name in refused else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            {
                "partition_index": part.partition_index,
                "error_code": errors.get((topic.name, part.partition_index), missing),
            }
            for part in topic.partitions
        ]
        topics.append({"name": topic.name, "partitions": partitions})
    request.reply({"error_code": result.error, "throttle_time": NO_THROTTLE_MS, "topics": topics})


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"error_code": error, "throttle_time": NO_THROTTLE_MS, "topics": ()})


API = Api(
    key=ApiKey.OFFSET_DELETE,
    versions=range(1),
    handle=handle,
    elements_max=10_000,
    access=(
        Access(Operation.DELETE, ResourceType.GROUP, "group_id", refuse=_refuse),
        Access(Operation.READ, ResourceType.TOPIC, "topics[].name"),
    ),
)
