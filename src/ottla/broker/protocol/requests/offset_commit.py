"""An OffsetCommit request (8), v2-10, from its bytes, a topic at a time. What is in it, and what it means, is not judged here.

v2-4 have a retention time; v6+ the leader epoch; v7+ the instance id; v8+ is flexible; v10+ names topics by id (KIP-516).
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import PeerError
from ottla.core.wire.fields import COMPACT, PLAIN, Fields, bounded, int32, int64, uvarint

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


class AskedTopic(NamedTuple):
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
    topics: list[AskedTopic]


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
    topics: list[AskedTopic] = []
    total = count
    for _ in range(count):
        if total > PARTITIONS_MAX:
            break
        topic, at = _topic(data, at, version, fields)
        total += len(topic.partitions)
        topics.append(topic)
    if total > PARTITIONS_MAX:
        raise PeerError(f"an OffsetCommit request with more than {PARTITIONS_MAX} topics and partitions: commit them in several requests")
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics), fields.end(data, at)


def _topic(data: bytes, at: int, version: int, fields: Fields) -> tuple[AskedTopic, int]:
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
    return AskedTopic(key, partitions, offsets, epochs, metadata), fields.end(data, end)


_Columns = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[str] | None, int]
"""Those of an AskedTopic, and where they end."""


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
