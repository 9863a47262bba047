"""OffsetFetch (9), v1-10: the offsets that groups have committed.

Version notes: v1-7 ask for one group, v8+ for many (KIP-709); null topics (v2+) ask for all; v2+ has a group-level error, v1 repeats it in
every partition; v7+ may require stable offsets (KIP-447); v10+ names topics by id, and so leaves out those that are no more.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetFetch
from ottla.core.groups.effects import FetchedOffset, OffsetFetchResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node

T = TypeVar("T")
Wanted = tuple[tuple[str, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class _Group:
    """One group of a request; `unknown` are topics asked for by an id that nobody has, with their partitions."""

    group_id: str
    topics: Wanted
    topic_ids: tuple[tuple[str, bytes], ...] = ()
    unknown: tuple[tuple[uuid.UUID, tuple[int, ...]], ...] = ()


def handle(node: "Node", request: Request) -> None:
    """Asks each group's coordinator, in pieces; reads never wait. What is asked for twice is answered once."""
    groups = dict.fromkeys(_groups(node, request))
    answers = (_group_answer(node, request, group) for group in groups)
    if request.version >= 8:
        values: dict[str, Any] = {"throttle_time": NO_THROTTLE_MS, "groups": answers}
    else:
        (group,) = groups
        values = {"throttle_time": NO_THROTTLE_MS, **_one_group(request.version, group, next(answers))}
    node.cluster.scheduler.run(request, request.reply_in_pieces(values))


def _groups(node: "Node", request: Request) -> Iterator[_Group]:
    if request.version < 8:
        yield _Group(request.message.group_id, _names(request.message.topics))
    elif request.version < 10:
        yield from (_Group(group.group_id, _names(group.topics)) for group in request.message.groups)
    else:
        yield from (_by_id(node, group) for group in request.message.groups)


def _names(topics: Any) -> Wanted:
    return None if topics is None else tuple(_once((topic.name, topic.partition_indexes) for topic in topics).items())


def _once(topics: Iterable[tuple[T, Sequence[int]]]) -> dict[T, tuple[int, ...]]:
    """Each topic and each of its partitions once, in the order in which they are first named."""
    partitions: dict[T, dict[int, None]] = {}
    for topic, numbers in topics:
        partitions.setdefault(topic, {}).update(dict.fromkeys(numbers))
    return {topic: tuple(numbers) for topic, numbers in partitions.items()}


def _by_id(node: "Node", group: Any) -> _Group:
    if group.topics is None:
        return _Group(group.group_id, None)
    known: dict[str, tuple[int, ...]] = {}
    unknown: dict[uuid.UUID, tuple[int, ...]] = {}
    topic_ids: dict[str, bytes] = {}
    for topic_id, partitions in _once((topic.topic_id or uuid.UUID(int=0), topic.partition_indexes) for topic in group.topics).items():
        found = node.cluster.catalogue.topics_by_id.get(topic_id.bytes)
        if found is None:
            unknown[topic_id] = partitions
        else:
            known[found.name] = partitions
            topic_ids[found.name] = found.topic_id
    return _Group(group.group_id, tuple(known.items()), tuple(topic_ids.items()), tuple(unknown.items()))


def _group_answer(node: "Node", request: Request, group: _Group) -> dict[str, Any]:
    results: list[Result] = []
    command = OffsetFetch(
        reply_to=node.groups.wait_for(results.append, request),
        group_id=group.group_id,
        topics=group.topics,
        require_stable=bool(getattr(request.message, "require_stable", False)),
        topic_ids=dict(group.topic_ids),
    )
    node.groups.ask(group.group_id, command)
    (result,) = results
    assert isinstance(result, OffsetFetchResult)
    return {"group_id": group.group_id, "topics": _topics(node, request.version, group, result), "error_code": result.error}


def _topics(node: "Node", version: int, group: _Group, result: OffsetFetchResult) -> Iterator[dict[str, Any]]:
    for name, offsets in result.topics:
        topic = node.cluster.catalogue.topics.get(name)
        if topic is not None or version < 10:
            topic_id = None if topic is None else uuid.UUID(bytes=topic.topic_id)
            yield {"name": name, "topic_id": topic_id, "partitions": map(_partition, offsets)}
    for topic_id, partitions in group.unknown if result.error is ErrorCode.NONE else ():
        none = (_partition(_nothing(number, ErrorCode.UNKNOWN_TOPIC_ID)) for number in partitions)
        yield {"name": "", "topic_id": topic_id, "partitions": none}


def _nothing(partition: int, error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(partition=partition, offset=-1, leader_epoch=-1, metadata="", error=error)


def _partition(fetched: FetchedOffset) -> dict[str, Any]:
    return {
        "partition_index": fetched.partition,
        "committed_offset": fetched.offset,
        "committed_leader_epoch": fetched.leader_epoch,
        "metadata": fetched.metadata,
        "error_code": fetched.error,
    }


def _one_group(version: int, group: _Group, answer: dict[str, Any]) -> dict[str, Any]:
    if version >= 2 or answer["error_code"] is ErrorCode.NONE:
        return {"topics": answer["topics"], "error_code": answer["error_code"]}
    error = answer["error_code"]
    topics = [
        {"name": name, "partitions": [_partition(_nothing(number, error)) for number in partitions]}
        for name, partitions in group.topics or ()
    ]
    return {"topics": topics}


API = Api(key=9, versions=range(1, 11), handle=handle)
