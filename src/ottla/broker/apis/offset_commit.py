"""OffsetCommit (8), v2-10: a group's offsets are kept, if the member's generation still counts.

Version notes: v2-4 may carry a retention of their own; v6+ the leader epoch; v7+ static members; v9+ knows group errors (KIP-848);
v10+ names topics by id (KIP-516).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.pack import Packer
from ottla.broker.requests.offset_commit import (
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_WITH_TOPIC_IDS,
    AskedTopic,
    read_offset_commit,
)
from ottla.core.catalogue.catalogue import Topic
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetCommit, OffsetsToCommit
from ottla.core.groups.committed import TopicOffsets
from ottla.core.groups.effects import CommitResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node

_KNOWS_GROUP_ERRORS: Final = 9
_PARTITION: Final = Struct(">ih")
_FLEXIBLE_PARTITION: Final = Struct(">ihx")
_AT_ONCE_MAX: Final = 1024
"""So many partitions without an error are packed by one call."""

_Errors = Sequence[ErrorCode | None] | None
"""By partition of a topic: an error that was found here, None for the coordinator to say; all are the coordinator's if None itself."""


def handle(node: "Node", request: Request) -> None:
    """Answers for partitions that do not exist itself, and asks the group's coordinator for the rest."""
    version = request.version
    asked = read_offset_commit(request.data, request.body_at, version)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: Mapping[str, Topic] | Mapping[bytes, Topic] = node.cluster.catalogue.topics_by_id if by_id else node.cluster.catalogue.topics
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    taken: list[tuple[AskedTopic, _Errors]] = []
    wanted: list[TopicOffsets] = []
    for each in asked.topics:
        topic: Topic | None = topics.get(each.key)  # type: ignore[arg-type]
        taken.append((each, _take(each, topic, missing, wanted)))
    if not wanted:
        _answer(request, taken, CommitResult(errors=()))
        return
    command = OffsetCommit(
        reply_to=node.groups.wait_for(partial(_answer, request, taken), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
        retention_ms=asked.retention_ms,
        knows_group_errors=version >= _KNOWS_GROUP_ERRORS,
        offsets=OffsetsToCommit(tuple(wanted)),
    )
    node.groups.ask(asked.group_id, command)


def _take(asked: AskedTopic, topic: Topic | None, missing: ErrorCode, wanted: list[TopicOffsets]) -> _Errors:
    """Adds what exists to `wanted`, and says what does not."""
    _, partitions, offsets, epochs, metadata = asked
    if topic is None:
        return [missing] * len(partitions)
    if not partitions:
        return None
    count = len(topic.leaders)
    if min(partitions) >= 0 and max(partitions) < count:
        wanted.append(TopicOffsets(topic.name, topic.topic_id, partitions, offsets, epochs, metadata))
        return None
    exists = [0 <= number < count for number in partitions]
    if any(exists):
        kept = [list(compress(column, exists)) for column in (partitions, offsets, epochs)]
        texts = None if metadata is None else list(compress(metadata, exists))
        wanted.append(TopicOffsets(topic.name, topic.topic_id, kept[0], kept[1], kept[2], texts))
    return [None if exist else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for exist in exists]


def _answer(request: Request, taken: list[tuple[AskedTopic, _Errors]], result: Result) -> None:
    assert isinstance(result, CommitResult)
    flexible = request.version >= FIRST_FLEXIBLE_VERSION
    decided = None if result.errors.count(ErrorCode.NONE) == len(result.errors) else iter(result.errors)
    out = Packer(flexible)
    if request.version >= 3:
        out.int32(NO_THROTTLE_MS)
    out.array(len(taken))
    for asked, errors in taken:
        if isinstance(asked.key, bytes):
            out.raw(asked.key)
        else:
            out.string(asked.key)
        out.array(len(asked.partitions))
        if errors is None and decided is None:
            out.raw(_all_well(asked.partitions, flexible))
        else:
            out.raw(_each(asked.partitions, errors, decided, flexible))
        out.end()
    request.reply_bytes(out.end().data)


def _all_well(partitions: Sequence[int], flexible: bool) -> bytes:
    if len(partitions) <= _AT_ONCE_MAX:
        return _without_errors(len(partitions), flexible).pack(*partitions)
    return _each(partitions, None, None, flexible)


@lru_cache(maxsize=256)
def _without_errors(count: int, flexible: bool) -> Struct:
    """Numbers, each with two zero bytes of no error, and one of no tags."""
    return Struct(">" + ("i3x" if flexible else "i2x") * count)


def _each(partitions: Sequence[int], errors: _Errors, decided: Iterator[ErrorCode] | None, flexible: bool) -> bytes:
    pack = (_FLEXIBLE_PARTITION if flexible else _PARTITION).pack
    own: Sequence[ErrorCode | None] = [None] * len(partitions) if errors is None else errors
    codes = [error if error is not None else ErrorCode.NONE if decided is None else next(decided) for error in own]
    return b"".join(map(pack, partitions, codes))


API = Api(key=8, versions=range(2, 11), handle=handle, decodes_itself=True)
