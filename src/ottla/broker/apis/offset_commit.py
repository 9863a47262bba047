"""OffsetCommit (8), v2-10: a group's offsets are kept, if the member's generation still counts.

Version notes: v2-4 may carry a retention of their own; v6+ the leader epoch; v7+ static members; v9+ knows group errors (KIP-848);
v10+ names topics by id (KIP-516).
"""

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request, milliseconds
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetCommit, OffsetToCommit
from ottla.core.groups.effects import CommitResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


@dataclass(slots=True)
class _Topic:
    """One topic of the answer: its name (or id, v10+), its partitions, and their errors; None until the coordinator has answered."""

    key: str | uuid.UUID
    partitions: list[int]
    errors: list[ErrorCode | None]


def handle(node: "Node", request: Request) -> None:
    """Answers for partitions that do not exist itself, and asks the group's coordinator for the rest."""
    message = request.message
    topics: list[_Topic] = []
    offsets: list[OffsetToCommit] = []
    for asked in message.topics:
        topics.append(_take(node, request.version, asked, offsets))
    if not offsets:
        _answer(request, topics, CommitResult(errors=()))
        return
    command = OffsetCommit(
        reply_to=node.groups.wait_for(lambda result: _answer(request, topics, result)),
        group_id=message.group_id,
        generation=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        instance_id=getattr(message, "group_instance_id", None),
        retention_ms=milliseconds(message.retention_time) if request.version <= 4 else -1,
        knows_group_errors=request.version >= 9,
        offsets=tuple(offsets),
    )
    node.groups.ask(message.group_id, command)


def _take(node: "Node", version: int, asked: Any, offsets: list[OffsetToCommit]) -> _Topic:
    if version >= 10:
        topic_id = asked.topic_id or uuid.UUID(int=0)
        topic, missing = node.cluster.catalogue.topics_by_id.get(topic_id.bytes), ErrorCode.UNKNOWN_TOPIC_ID
        taken = _Topic(topic_id, [], [])
    else:
        topic, missing = node.cluster.catalogue.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        taken = _Topic(asked.name, [], [])
    for part in asked.partitions:
        number = part.partition_index
        taken.partitions.append(number)
        if topic is None or not 0 <= number < len(topic.leaders):
            taken.errors.append(missing if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        taken.errors.append(None)
        offsets.append(
            OffsetToCommit(
                topic=topic.name,
                partition=number,
                offset=part.committed_offset,
                leader_epoch=getattr(part, "committed_leader_epoch", -1),
                metadata=part.committed_metadata,
                topic_id=topic.topic_id,
            )
        )
    return taken


def _answer(request: Request, topics: list[_Topic], result: Result) -> None:
    assert isinstance(result, CommitResult)
    decided = iter(result.errors)
    out = Packer(is_flexible(request.key, request.version))
    if request.version >= 3:
        out.int32(NO_THROTTLE_MS)
    out.array(len(topics))
    for topic in topics:
        if isinstance(topic.key, uuid.UUID):
            out.raw(topic.key.bytes)
        else:
            out.string(topic.key)
        out.array(len(topic.partitions))
        for number, error in zip(topic.partitions, topic.errors, strict=True):
            out.int32(number).int16(next(decided) if error is None else error).end()
        out.end()
    request.reply_body([out.end().data])


API = Api(key=8, versions=range(2, 11), handle=handle)
