"""OffsetCommit (8), v2-10: stores a group's offsets if the member's generation is current.

Version notes: v2-4 may carry a retention time; v6+ the leader epoch; v7+ static members; v9+ has group errors (KIP-848); v10+ takes
topics by id (KIP-516).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress
from struct import Struct
from typing import Final

from ottla.broker.coordination.group_router import GroupRouter
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.broker.protocol.requests.offset_commit import (
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_WITH_TOPIC_IDS,
    AskedTopic,
    read_offset_commit,
)
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetCommit, OffsetsToCommit
from ottla.core.groups.effects import CommitResult, Result
from ottla.core.groups.log.committed_offsets import TopicOffsets
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.topics import Topic
from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.writer import Writer

_KNOWS_GROUP_ERRORS: Final = 9
_PARTITION: Final = Struct(">ih")
_FLEXIBLE_PARTITION: Final = Struct(">ihx")
_NO_TAGS: Final = b"\0"
_AT_ONCE_MAX: Final = 1024
"""So many partitions without an error are packed by one call."""

_Errors = Sequence[ErrorCode | None] | None
"""By partition of a topic: an error that was found here, None where the coordinator decides; just None where it decides all."""


def handle(request: Request, *, cluster_metadata: ClusterMetadata, groups: GroupRouter) -> None:
    """Answer for partitions that do not exist itself and ask the group's coordinator for the rest."""
    version = request.version
    asked = read_offset_commit(request.data, request.body_at, version)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: Mapping[str, Topic] | Mapping[bytes, Topic] = cluster_metadata.topics_by_id if by_id else cluster_metadata.topics
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
        reply_to=groups.expect_reply(partial(_answer, request, taken), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
        retention_ms=asked.retention_ms,
        knows_group_errors=version >= _KNOWS_GROUP_ERRORS,
        offsets=OffsetsToCommit(tuple(wanted)),
    )
    groups.run(asked.group_id, command)


def _take(asked: AskedTopic, topic: Topic | None, missing: ErrorCode, wanted: list[TopicOffsets]) -> _Errors:
    """Add what exists to `wanted`. Returns the errors of what does not."""
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
    parts = [_begin(len(taken), request.version)]
    for (key, partitions, *_), errors in taken:
        count = len(partitions)
        if errors is None and decided is None and count <= _AT_ONCE_MAX:
            parts += _head_of_known(key, count, flexible), _without_errors(count, flexible)(*partitions)
        else:
            parts += _head(key, count, flexible), _each(partitions, errors, decided, flexible)
    if flexible:
        parts.append(_NO_TAGS)
    request.reply_bytes(b"".join(parts))


@lru_cache(maxsize=256)
def _begin(topics: int, version: int) -> bytes:
    """An answer up to its first topic."""
    out = Writer(version >= FIRST_FLEXIBLE_VERSION)
    if version >= 3:
        out.int32(NO_THROTTLE_MS)
    return bytes(out.array(topics).data)


def _head(key: str | bytes, count: int, flexible: bool) -> bytes:
    """A topic up to its first partition."""
    out = Writer(flexible)
    if isinstance(key, bytes):
        out.raw(key)
    else:
        out.string(key)
    return bytes(out.array(count).data)


_head_of_known: Final = lru_cache(maxsize=1024)(_head)
"""For topics that exist: other names may be long, and many."""


@lru_cache(maxsize=256)
def _without_errors(count: int, flexible: bool) -> Callable[..., bytes]:
    """What packs partitions: numbers, each with two zero bytes of no error, and one of no tags; and no tags of the topic."""
    return Struct(">" + ("i3x" * count + "x" if flexible else "i2x" * count)).pack


def _each(partitions: Sequence[int], errors: _Errors, decided: Iterator[ErrorCode] | None, flexible: bool) -> bytes:
    pack = (_FLEXIBLE_PARTITION if flexible else _PARTITION).pack
    own: Sequence[ErrorCode | None] = [None] * len(partitions) if errors is None else errors
    codes = [error if error is not None else ErrorCode.NONE if decided is None else next(decided) for error in own]
    return b"".join(map(pack, partitions, codes)) + (_NO_TAGS if flexible else b"")


API = Api(key=ApiKey.OFFSET_COMMIT, versions=range(2, 11), handle=handle, decodes_itself=True)
