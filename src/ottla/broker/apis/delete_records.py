"""DeleteRecords (21), v0-2: increases log start offsets (KIP-107). Consumers see it at once; retention deletes the segments below later.

Version notes: v2+ is flexible. The offset -1 means the high watermark. A topic with only `compact` as its policy keeps its records, and
so do internal topics.
"""

from collections.abc import Iterator
from typing import Any

from ottla.broker.cluster.brokers import Node, PartitionOpening
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import Work
from ottla.log.append import LogRefusal
from ottla.metadata.topics import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_NO_LOW_WATERMARK = -1


def handle(request: Request, *, node: Node, partition_opening: PartitionOpening) -> None:
    """Answer with the new start of each log, in pieces. A partition that is named twice counts once, as it is named last."""
    named = ((topic.name, part.partition_index) for topic in request.message.topics for part in topic.partitions)
    partition_opening.then(request, named, lambda: _answer(node, request))


def _answer(node: Node, request: Request) -> Work:
    asked: dict[str, dict[int, int]] = {}
    for topic in request.message.topics:
        asked.setdefault(topic.name, {}).update((part.partition_index, part.offset) for part in topic.partitions)
    topics = ({"name": name, "partitions": _partitions(node, name, offsets)} for name, offsets in asked.items() if offsets)
    return request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics})


def _partitions(node: Node, topic: str, offsets: dict[int, int]) -> Iterator[dict[str, Any] | None]:
    for number, before_offset in offsets.items():
        yield _partition(node, topic, number, before_offset)
        yield None


def _partition(node: Node, topic: str, number: int, before_offset: int) -> dict[str, Any]:
    try:
        outcome = _delete(node, topic, number, before_offset)
    except StorageError as failed:
        outcome = failed.code
    return _result(number, outcome)


def _result(number: int, outcome: int | ErrorCode) -> dict[str, Any]:
    is_error = isinstance(outcome, ErrorCode)
    return {
        "partition_index": number,
        "low_watermark": _NO_LOW_WATERMARK if is_error else outcome,
        "error_code": outcome if is_error else ErrorCode.NONE,
    }


def _delete(node: Node, topic: str, number: int, before_offset: int) -> int | ErrorCode:
    partition = node.led(topic, number)
    if isinstance(partition, ErrorCode):
        return partition
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if "delete" not in partition.log.settings.cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    start = partition.log.delete_records(before_offset)
    return start.error if isinstance(start, LogRefusal) else start


def _refuse(topic: Any, error: ErrorCode) -> dict[str, Any]:
    return {"name": topic.name, "partitions": [_result(partition.partition_index, error) for partition in topic.partitions]}


API = Api(
    key=ApiKey.DELETE_RECORDS,
    versions=range(3),
    handle=handle,
    access=(Access(Operation.DELETE, ResourceType.TOPIC, "topics[].name", refuse=_refuse, answers="topics"),),
)
