"""OffsetFetch (9), v1-10: the offsets that groups have committed.

Version notes: v1-7 ask for one group, v8+ for many (KIP-709); null topics (v2+) ask for all; v2+ has a group-level error, v1 repeats it in
every partition; v7+ may require stable offsets (KIP-447); v10+ names topics by id, and so leaves out those that are no more.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetFetch
from ottla.core.groups.effects import FetchedOffset, OffsetFetchResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node

Wanted = tuple[tuple[str, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class _Group:
    """One group of a request; `unknown` are topics asked for by an id that nobody has, with their partitions."""

    group_id: str
    topics: Wanted
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    unknown: tuple[tuple[uuid.UUID, tuple[int, ...]], ...] = ()


def handle(node: "Node", request: Request) -> None:
    """Asks each group's coordinator; reads never wait, so that the answer is complete at the end."""
    message = request.message
    groups = _groups(node, request)
    answers: list[dict[str, Any]] = []

    def take(group: _Group, result: Result) -> None:
        assert isinstance(result, OffsetFetchResult)
        answers.append(_group_answer(node, request.version, group, result))

    for group in groups:
        reply_to = node.groups.wait_for(partial(take, group), request)
        require_stable = bool(getattr(message, "require_stable", False))
        command = OffsetFetch(
            reply_to=reply_to,
            group_id=group.group_id,
            topics=group.topics,
            require_stable=require_stable,
            topic_ids=group.topic_ids,
        )
        node.groups.ask(group.group_id, command)
    if request.version >= 8:
        request.reply({"throttle_time": NO_THROTTLE_MS, "groups": answers})
    else:
        request.reply({"throttle_time": NO_THROTTLE_MS, **_one_group(request.version, groups[0], answers[0])})


def _groups(node: "Node", request: Request) -> list[_Group]:
    if request.version < 8:
        return [_Group(request.message.group_id, _names(request.message.topics))]
    if request.version < 10:
        return [_Group(group.group_id, _names(group.topics)) for group in request.message.groups]
    return [_by_id(node, group) for group in request.message.groups]


def _names(topics: Any) -> Wanted:
    return None if topics is None else tuple((topic.name, tuple(topic.partition_indexes)) for topic in topics)


def _by_id(node: "Node", group: Any) -> _Group:
    if group.topics is None:
        return _Group(group.group_id, None)
    known, unknown = [], []
    topic_ids: dict[str, bytes] = {}
    for topic in group.topics:
        found = node.cluster.catalogue.topics_by_id.get(topic.topic_id.bytes) if topic.topic_id else None
        if found is None:
            unknown.append((topic.topic_id or uuid.UUID(int=0), tuple(topic.partition_indexes)))
        else:
            known.append((found.name, tuple(topic.partition_indexes)))
            topic_ids[found.name] = found.topic_id
    return _Group(group.group_id, tuple(known), topic_ids, tuple(unknown))


def _group_answer(node: "Node", version: int, group: _Group, result: OffsetFetchResult) -> dict[str, Any]:
    topics: list[dict[str, Any]] = []
    for name, offsets in result.topics:
        topic = node.cluster.catalogue.topics.get(name)
        if topic is not None or version < 10:
            topic_id = None if topic is None else uuid.UUID(bytes=topic.topic_id)
            topics.append({"name": name, "topic_id": topic_id, "partitions": [_partition(offset) for offset in offsets]})
    for topic_id, partitions in group.unknown if result.error is ErrorCode.NONE else ():
        none = [_partition(_nothing(number, ErrorCode.UNKNOWN_TOPIC_ID)) for number in partitions]
        topics.append({"name": "", "topic_id": topic_id, "partitions": none})
    return {"group_id": group.group_id, "topics": topics, "error_code": result.error}


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
