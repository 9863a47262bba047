"""OffsetDelete (47), v0: removes a group's offsets of topics that it is not subscribed to (KIP-496)."""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetDelete
from ottla.core.groups.effects import OffsetDeleteResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers for partitions that do not exist itself, and asks the group's coordinator for the rest."""
    message = request.message
    known = [
        (topic.name, part.partition_index)
        for topic in message.topics
        for part in topic.partitions
        if _exists(node, topic.name, part.partition_index)
    ]
    command = OffsetDelete(
        reply_to=node.groups.wait_for(lambda result: _answer(request, known, result), request),
        group_id=message.group_id,
        partitions=tuple(known),
    )
    node.groups.ask(message.group_id, command)


def _exists(node: "Node", name: str, number: int) -> bool:
    topic = node.cluster.catalogue.topics.get(name)
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


API = Api(key=47, versions=range(1), handle=handle, elements_max=10_000)
