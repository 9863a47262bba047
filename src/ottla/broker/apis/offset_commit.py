"""OffsetCommit (8), v2-10: stores a group's offsets if the member's generation is current.

Version notes: v2-4 may carry a retention time; v6+ the leader epoch; v7+ static members; v9+ has group errors (KIP-848); v10+ takes
topics by id (KIP-516).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request, Session
from ottla.groups.commands import CommitResult, OffsetCommit, OffsetsToCommit, Result
from ottla.groups.log.committed_offsets import TopicOffsets
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, PeerError, RequestTooLarge
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import COMPACT, PLAIN, Fields, Writer, bounded, int32, int64, uvarint
from ottla.security.access import Operation, ResourceType

FIRST_FLEXIBLE_VERSION: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
NO_RETENTION: Final = -1
PARTITIONS_MAX: Final = 20_000
"""Topics and partitions in one request. Apache Kafka refuses fewer: their records must fit into one batch of `max.message.bytes`."""

# A partition up to its metadata: number, offset, epoch, length of the metadata. Tags follow the metadata in flexible versions.
_OLD: Final = Struct(">iqh")
_WITH_EPOCH: Final = Struct(">iqih")
_FLEXIBLE: Final = Struct(">iqiB")
_ONE_BYTE_LENGTH_MAX: Final = 0x7F
_TEXT_BYTES_MAX: Final = 32_767
_ROWS_KEPT: Final = 1024
_NO_EPOCH: Final = (-1,)


class CommittedTopic(NamedTuple):
    """One topic: its name, or id (v10+), and its partitions in columns. `metadata` None: none of them has any."""

    key: str | bytes
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None


class OffsetCommitRequest(NamedTuple):
    """Its fields in their order; `retention_ms` -1 and `instance_id` None where the version lacks them."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: list[CommittedTopic]


@bounded
def read_offset_commit(data: bytes, at: int, version: int) -> tuple[OffsetCommitRequest, int]:
    """The request whose body begins at `at`. Raises PeerError."""
    fields = COMPACT if version >= FIRST_FLEXIBLE_VERSION else PLAIN
    group_id, at = fields.text(data, at)
    generation, at = int32(data, at)
    member_id, at = fields.text(data, at)
    instance_id, retention_ms = None, NO_RETENTION
    if version >= 7:
        instance_id, at = fields.nullable_text(data, at)
    if version <= 4:
        retention_ms, at = int64(data, at)
    count, at = fields.length(data, at)
    topics: list[CommittedTopic] = []
    total = count
    for _ in range(count):
        if total > PARTITIONS_MAX:
            break
        topic, at = _topic(data, at, version, fields)
        total += len(topic.partitions)
        topics.append(topic)
    if total > PARTITIONS_MAX:
        raise RequestTooLarge(
            f"an OffsetCommit request with more than {PARTITIONS_MAX} topics and partitions: commit them in several requests"
        )
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics), fields.end(data, at)


def _topic(data: bytes, at: int, version: int, fields: Fields) -> tuple[CommittedTopic, int]:
    key: str | bytes
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        key, at = data[at : at + 16], at + 16
    else:
        key, at = fields.text(data, at)
    count, at = fields.length(data, at)
    flexible = version >= FIRST_FLEXIBLE_VERSION
    head = _OLD if version <= 5 else _FLEXIBLE if flexible else _WITH_EPOCH
    columns = _of_one_size(data, at, count, head, flexible) if count > 1 else None
    if columns is None:
        columns = _flexible_one_by_one(data, at, count) if flexible else _one_by_one(data, at, count, head)
    partitions, offsets, epochs, metadata, end = columns
    return CommittedTopic(key, partitions, offsets, epochs, metadata), fields.end(data, end)


_Columns = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[str] | None, int]
"""Those of an CommittedTopic, and where they end."""


def _of_one_size(data: bytes, at: int, count: int, head: Struct, flexible: bool) -> _Columns | None:
    """The columns, if the metadata of all partitions have one size, mostly none, and there are no tags.

    The first partition begins where it must; as long as each has the same size, so does the next.
    """
    length = head.unpack_from(data, at)[-1]
    null = 0 if flexible else -1
    size = max(0, length - 1 if flexible else length)
    row = head if not (size or flexible) else _row(head.format, size, flexible)
    end = at + count * row.size
    if end > len(data) or length < null or (flexible and length > _ONE_BYTE_LENGTH_MAX):
        return None
    if size and head.unpack_from(data, end - row.size)[-1] != length:
        return None
    columns = list(zip(*row.iter_unpack(data[at:end]), strict=True))
    if flexible and columns.pop().count(0) != count:
        return None
    texts = columns.pop() if size else None
    lengths = columns.pop()
    if lengths.count(length) != count and (size or lengths.count(null) + lengths.count(null + 1) != count):
        return None
    partitions, offsets = columns[:2]
    epochs = columns[2] if len(columns) > 2 else (-1,) * count
    return partitions, offsets, epochs, None if texts is None else [text.decode() for text in texts], end


@lru_cache(maxsize=_ROWS_KEPT)
def _row(head: str, size: int, flexible: bool) -> Struct:
    """A whole partition with metadata of a size."""
    return Struct(head + (f"{size}s" if size else "") + ("B" if flexible else ""))


def _flexible_one_by_one(data: bytes, at: int, count: int) -> _Columns:
    rows = []
    has_metadata = False
    unpack = _FLEXIBLE.unpack_from
    for _ in range(count):
        number, offset, epoch, length = unpack(data, at)
        at += _FLEXIBLE.size
        if length > _ONE_BYTE_LENGTH_MAX:
            length, at = uvarint(data, at - 1)
            if length > _TEXT_BYTES_MAX + 1:
                raise PeerError(f"metadata of {length - 1} bytes, where {_TEXT_BYTES_MAX} are allowed")
        text = ""
        if length > 1:
            end = at + length - 1
            text = data[at:end].decode()
            at = end
            has_metadata = True
        rows.append((number, offset, epoch, text))
        at = at + 1 if data[at] == 0 else COMPACT.end(data, at)
    return _columns(rows, has_metadata, at)


def _one_by_one(data: bytes, at: int, count: int, head: Struct) -> _Columns:
    if count == 1:
        number, offset, *epochs, length = head.unpack_from(data, at)
        if -1 <= length <= 0:
            return (number,), (offset,), epochs or _NO_EPOCH, None, at + head.size
    rows = []
    has_metadata = False
    unpack, head_bytes = head.unpack_from, head.size
    for _ in range(count):
        number, offset, *epochs, length = unpack(data, at)
        at += head_bytes
        text = ""
        if length > 0:
            end = at + length
            text = data[at:end].decode()
            at = end
            has_metadata = True
        elif length < -1:
            raise PeerError(f"metadata of length {length}")
        rows.append((number, offset, epochs[0] if epochs else -1, text))
    return _columns(rows, has_metadata, at)


def _columns(rows: list[tuple[int, int, int, str]], has_metadata: bool, end: int) -> _Columns:
    if not rows:
        return (), (), (), None, end
    partitions, offsets, epochs, metadata = zip(*rows, strict=True)
    return partitions, offsets, epochs, metadata if has_metadata else None, end


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
    taken: list[tuple[CommittedTopic, _Errors]] = []
    wanted: list[TopicOffsets] = []
    session = request.session
    if session.authorizer is not None and not session.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
        _answer(request, [(each, [refused] * len(each.partitions)) for each in asked.topics], CommitResult(errors=()))
        return
    for each in asked.topics:
        topic: Topic | None = topics.get(each.key)  # type: ignore[arg-type]
        if session.authorizer is not None and not _may_read(session, each, topic):
            taken.append((each, [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(each.partitions)))
        else:
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


def _take(asked: CommittedTopic, topic: Topic | None, missing: ErrorCode, wanted: list[TopicOffsets]) -> _Errors:
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


def _answer(request: Request, taken: list[tuple[CommittedTopic, _Errors]], result: Result) -> None:
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


def _may_read(session: Session, asked: CommittedTopic, topic: Topic | None) -> bool:
    """A topic that is named by an id that no topic has is missing rather than refused, as in Kafka: ids are no secret."""
    name = asked.key if topic is None else topic.name
    return isinstance(name, bytes) or session.may(Operation.READ, ResourceType.TOPIC, name)


API = Api(
    key=ApiKey.OFFSET_COMMIT,
    versions=range(2, 11),
    handle=handle,
    decodes_itself=True,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id"), Access(Operation.READ, ResourceType.TOPIC, "topics[].name")),
)
