"""OffsetFetch (9), v1-10: the committed offsets of groups.

Version notes: v1-7 request one group, v8+ many (KIP-709); null topics (v2+) request all; v2+ has a group-level error, v1 repeats it in
every partition; v7+ may require stable offsets (KIP-447); v9+ may say which member of a consumer group asks (KIP-848); v10+ takes and
returns topics by id, and so omits deleted ones.
"""

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, TypeVar

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.groups.commands import FetchedOffset, OffsetFetch, OffsetFetchResult, Result
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

T = TypeVar("T")
PIECE: Final = 256
"""So many topics are read before other requests continue."""
Wanted = tuple[tuple[str, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class _Group:
    """One group of a request; `unknown` are topics requested by an id that does not exist, with their partitions."""

    group_id: str
    topics: Wanted
    topic_ids: tuple[tuple[str, bytes], ...] = ()
    unknown: tuple[tuple[uuid.UUID, tuple[int, ...]], ...] = ()
    member_id: str | None = None
    member_epoch: int = -1


def handle(request: Request, *, cluster_metadata: ClusterMetadata, groups: GroupRouter, scheduler: RequestScheduler) -> None:
    """Ask each group's coordinator, in pieces; reads never wait. What is requested twice is answered once."""
    scheduler.run(request, _answer(cluster_metadata, groups, request))


def _answer(cluster_metadata: ClusterMetadata, groups: GroupRouter, request: Request) -> Work:
    if request.version >= 8:
        yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "groups": _groups(cluster_metadata, groups, request)})
        return
    group = _Group(request.message.group_id, (yield from _names(request.message.topics)))
    answer = _one_group(request.version, group, _group_answer(cluster_metadata, groups, request, group))
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, **answer})


def _groups(cluster_metadata: ClusterMetadata, groups: GroupRouter, request: Request) -> Iterator[dict[str, Any] | None]:
    answered = set()
    for asked in request.message.groups:
        if request.version < 10:
            group = _Group(asked.group_id, (yield from _names(asked.topics)))
        else:
            group = yield from _by_id(cluster_metadata, asked)
        if request.version >= 9:
            group = replace(group, member_id=asked.member_id, member_epoch=asked.member_epoch)
        if group not in answered:
            answered.add(group)
            yield _group_answer(cluster_metadata, groups, request, group)


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


def _by_id(cluster_metadata: ClusterMetadata, group: Any) -> Generator[None, None, _Group]:
    if group.topics is None:
        return _Group(group.group_id, None)
    known: dict[str, tuple[int, ...]] = {}
    unknown: dict[uuid.UUID, tuple[int, ...]] = {}
    topic_ids: dict[str, bytes] = {}
    asked = yield from _once((topic.topic_id or uuid.UUID(int=0), topic.partition_indexes) for topic in group.topics)
    for topic_id, partitions in asked.items():
        found = cluster_metadata.topics_by_id.get(topic_id.bytes)
        if found is None:
            unknown[topic_id] = partitions
        else:
            known[found.name] = partitions
            topic_ids[found.name] = found.topic_id
    return _Group(group.group_id, tuple(known.items()), tuple(topic_ids.items()), tuple(unknown.items()))


def _group_answer(cluster_metadata: ClusterMetadata, groups: GroupRouter, request: Request, group: _Group) -> dict[str, Any]:
    session = request.session
    if not session.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return {"group_id": group.group_id, "topics": (), "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    refused: list[tuple[str, tuple[int, ...]]] = []
    if session.authorizer is not None and group.topics is not None:
        refused = [topic for topic in group.topics if not session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic[0])]
        group = replace(group, topics=tuple(topic for topic in group.topics if topic not in refused))
    results: list[Result] = []
    command = OffsetFetch(
        reply_to=groups.expect_reply(results.append, request),
        group_id=group.group_id,
        topics=group.topics,
        require_stable=bool(getattr(request.message, "require_stable", False)),
        topic_ids=dict(group.topic_ids),
        member_id=group.member_id,
        member_epoch=group.member_epoch,
    )
    groups.run(group.group_id, command)
    (result,) = results
    assert isinstance(result, OffsetFetchResult)
    topics = chain(_topics(cluster_metadata, request, group, result), _refused(group, refused) if result.error is ErrorCode.NONE else ())
    return {"group_id": group.group_id, "topics": topics, "error_code": result.error}


def _refused(group: _Group, topics: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[dict[str, Any]]:
    topic_ids = dict(group.topic_ids)
    for name, partitions in topics:
        none = (_partition(_nothing(number, ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for number in partitions)
        yield {"name": name, "topic_id": uuid.UUID(bytes=topic_ids[name]) if name in topic_ids else None, "partitions": none}


def _topics(cluster_metadata: ClusterMetadata, request: Request, group: _Group, result: OffsetFetchResult) -> Iterator[dict[str, Any]]:
    for name, offsets in result.topics:
        topic = cluster_metadata.topics.get(name)
        if group.topics is None and not request.session.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            continue
        if topic is not None or request.version < 10:
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


API = Api(
    key=ApiKey.OFFSET_FETCH,
    versions=range(1, 11),
    handle=handle,
    elements_max=40_000,
    access=(
        Access(Operation.DESCRIBE, ResourceType.GROUP, "groups[].group_id"),
        Access(Operation.DESCRIBE, ResourceType.TOPIC, "groups[].topics[].name"),
    ),
)
