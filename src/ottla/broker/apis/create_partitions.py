"""CreatePartitions (37), v0-3: raises partition counts; a smaller or equal count is refused with INVALID_PARTITIONS."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers with one result a topic; a name that is given twice is refused, once."""
    times = Counter(topic.name for topic in request.message.topics)
    results = [_result(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1]
    results += [_create(node, asked, request.message.validate_only) for asked in request.message.topics if times[asked.name] == 1]
    request.reply({"throttle_time": NO_THROTTLE_MS, "results": results})


def _create(node: "Node", asked: Any, validate_only: bool) -> dict[str, Any]:
    assignments = None if asked.assignments is None else [list(part.broker_ids) for part in asked.assignments]
    try:
        refused = node.cluster.topics.add_partitions(asked.name, asked.count, assignments, validate_only=validate_only)
    except StorageError as error:
        return _result(asked.name, error.code, str(error))
    return _result(asked.name, refused.error, refused.message) if refused else _result(asked.name, ErrorCode.NONE, None)


def _result(name: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": error, "error_message": message}


API = Api(key=37, versions=range(4), handle=handle)
