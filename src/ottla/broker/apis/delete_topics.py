"""DeleteTopics (20), v1-6: removes topics with their records and the offsets that groups committed for them.

Version notes: v6 names topics by name or by id; v5+ carries an error message.
"""

import asyncio
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers with one result a topic, when neither checkpoints nor directories on the disk have the names of deleted ones any more.

    Each deletion is made durable, so that many of them are done one after the other beside other requests.
    """
    node.cluster.scheduler.run(request, _delete_all(node, request))


def _delete_all(node: "Node", request: Request) -> Work:
    results: list[dict[str, Any]] = []
    if request.version >= 6:
        for asked in request.message.topics:
            results.append(_delete_named(node, asked))
            yield
    else:
        times = Counter(request.message.topic_names)
        results += [_result(name, None, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1]
        for name, count in times.items():
            if count == 1:
                results.append(_delete(node, name))
                yield

    def answer(_written: "asyncio.Future[None]") -> None:
        values = {"throttle_time": NO_THROTTLE_MS, "responses": results}
        node.cluster.scheduler.run(request, request.reply_in_pieces(values))

    asyncio.ensure_future(_finish(node, [result["name"] for result in results])).add_done_callback(request.guarded(answer))


async def _finish(node: "Node", names: list[str | None]) -> None:
    await node.cluster.deletions.write()
    await node.cluster.partitions.when_moved(name for name in names if name is not None)


def _delete_named(node: "Node", asked: Any) -> dict[str, Any]:
    if asked.name is not None and asked.topic_id is not None:
        return _result(asked.name, asked.topic_id, ErrorCode.INVALID_REQUEST, "A topic is named by name or by id, not by both.")
    if asked.name is not None:
        return _delete(node, asked.name)
    topic = node.cluster.catalogue.topics_by_id.get(asked.topic_id.bytes) if asked.topic_id else None
    if topic is None:
        return _result(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return _delete(node, topic.name)


def _delete(node: "Node", name: str) -> dict[str, Any]:
    topic = node.cluster.catalogue.topics.get(name)
    topic_id = uuid.UUID(bytes=topic.topic_id) if topic else None
    if not node.cluster.config.flag("delete.topic.enable"):
        return _result(name, topic_id, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    try:
        refused = node.cluster.delete_topic(name)
    except StorageError as error:
        return _result(name, topic_id, error.code, str(error))
    return _result(name, topic_id, refused.error, refused.message) if refused else _result(name, topic_id, ErrorCode.NONE, None)


def _result(name: str | None, topic_id: uuid.UUID | None, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message}


API = Api(key=20, versions=range(1, 7), handle=handle, elements_max=10_000)
