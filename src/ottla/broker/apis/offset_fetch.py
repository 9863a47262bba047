"""OffsetFetch (9), v1-10: the offsets that groups have committed.

Version notes: v1-7 ask for one group, v8+ for many (KIP-709); null topics (v2+) ask for all; v2+ has a group-level error, v1 repeats it in
every partition; v7+ may require stable offsets (KIP-447); v10+ names topics by id, and so leaves out those that are no more.
"""

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetFetch
from ottla.core.groups.effects import FetchedOffset, OffsetFetchResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node

T = TypeVar("T")
PIECE: Final = 256
"""So many topics are read before other requests continue."""
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
    node.cluster.scheduler.run(request, _answer(node, request))


def _answer(node: "Node", request: Request) -> Work:
    if request.version >= 8:
        yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "groups": _groups(node, request)})
        return
    group = _Group(request.message.group_id, (yield from _names(request.message.topics)))
    answer = _one_group(request.version, group, _group_answer(node, request, group))
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, **answer})


def _groups(node: "Node", request: Request) -> Iterator[dict[str, Any] | None]:
    answered = set()
    for asked in request.message.groups:
        if request.version < 10:
            group = _Group(asked.group_id, (yield from _names(asked.topics)))
        else:
            group = yield from _by_id(node, asked)
        if group not in answered:
            answered.add(group)
            yield _group_answer(node, request, group)


def _names(topics: Any) -> Generator[None, None, Wanted]:
    if topics is None:
        return None
    return tuple((yield from _once((topic.name, topic.partition_indexes) for topic in topics)).items())


def _once(topics: Iterable[tuple[T, Sequence[int]]]) -> Generator[None, None, dict[T, tuple[int, ...]]]:
    """Each topic and each of its partitions once, in the order in which they are first named."""
    first: dict[T, tuple[int, ...]] = {}
    more: dict[T, dict[int, None]] = {}
    for count, (topic, numbers) in enumerate(topics):
        if topic not in first:
            first[topic] = tuple(dict.fromkeys(numbers))
        else:
            if topic not in more:
                more[topic] = dict.fromkeys(first[topic])
            more[topic].update(dict.fromkeys(numbers))
        if count % PIECE == PIECE - 1:
            yield
    return first | {topic: tuple(numbers) for topic, numbers in more.items()}


def _by_id(node: "Node", group: Any) -> Generator[None, None, _Group]:
    if group.topics is None:
        return _Group(group.group_id, None)
    known: dict[str, tuple[int, ...]] = {}
    unknown: dict[uuid.UUID, tuple[int, ...]] = {}
    topic_ids: dict[str, bytes] = {}
    asked = yield from _once((topic.topic_id or uuid.UUID(int=0), topic.partition_indexes) for topic in group.topics)
    for topic_id, partitions in asked.items():
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


API = Api(key=9, versions=range(1, 11), handle=handle, elements_max=40_000)
