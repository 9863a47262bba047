"""An OffsetCommit request (8), v2-10, from its bytes, a topic at a time. What is in it, and what it means, is not judged here.

v2-4 have a retention time; v6+ the leader epoch; v7+ the instance id; v8+ is flexible; v10+ names topics by id (KIP-516).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import PeerError
from ottla.core.fields import COMPACT, PLAIN, Fields, bounded, int32, int64

FIRST_FLEXIBLE_VERSION: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
NO_RETENTION: Final = -1
PARTITIONS_MAX: Final = 20_000
"""Topics and partitions in one request. Apache Kafka refuses fewer: their records must fit into one batch of `max.message.bytes`."""
# A partition whose metadata is empty or null, as clients mostly send it: number, offset, epoch, length of the metadata, tags.
_OLD: Final = Struct(">iqh")
_WITH_EPOCH: Final = Struct(">iqih")
_FLEXIBLE: Final = Struct(">iqiBB")


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
    topics = []
    total = _few(count)
    for _ in range(count):
        topic, at = _topic(data, at, version, fields, PARTITIONS_MAX - total)
        total += len(topic.partitions)
        topics.append(topic)
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics), fields.end(data, at)


def _few(count: int, at_most: int = PARTITIONS_MAX) -> int:
    if count > at_most:
        raise PeerError(f"an OffsetCommit request with more than {PARTITIONS_MAX} topics and partitions")
    return count


def _topic(data: bytes, at: int, version: int, fields: Fields, partitions_max: int) -> tuple[AskedTopic, int]:
    key: str | bytes
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        key, at = data[at : at + 16], at + 16
    else:
        key, at = fields.text(data, at)
    count, at = fields.length(data, at)
    _few(count, partitions_max)
    columns = _without_metadata(data, at, version, count)
    if columns is None:
        return _one_by_one(data, at, version, fields, key, count)
    partitions, offsets, epochs, end = columns
    return AskedTopic(key, partitions, offsets, epochs, None), fields.end(data, end)


def _without_metadata(data: bytes, at: int, version: int, count: int) -> tuple[Sequence[int], Sequence[int], Sequence[int], int] | None:
    """The columns and where they end, if no partition has metadata or tags: then all are of one size.

    The first one begins where it must; as long as each is of that size, so does the next.
    """
    row = _OLD if version <= 5 else _FLEXIBLE if version >= FIRST_FLEXIBLE_VERSION else _WITH_EPOCH
    end = at + count * row.size
    if count == 0 or end > len(data):
        return None
    if count == 1:
        number, offset, *rest = row.unpack_from(data, at)
        columns: list[tuple[int, ...]] = [(number,), (offset,), *((each,) for each in rest)]
    else:
        columns = list(zip(*row.iter_unpack(data[at:end]), strict=True))
    if version >= FIRST_FLEXIBLE_VERSION:
        partitions, offsets, epochs, lengths, tags = columns
        plain = tags.count(0) == count and lengths.count(1) + lengths.count(0) == count
    else:
        partitions, offsets, *more, lengths = columns
        epochs = more[0] if more else (-1,) * count
        plain = lengths.count(0) + lengths.count(-1) == count
    return (partitions, offsets, epochs, end) if plain else None


def _one_by_one(data: bytes, at: int, version: int, fields: Fields, key: str | bytes, count: int) -> tuple[AskedTopic, int]:
    partitions, offsets, epochs, metadata = [], [], [], []
    for _ in range(count):
        number, at = int32(data, at)
        offset, at = int64(data, at)
        epoch = -1
        if version >= 6:
            epoch, at = int32(data, at)
        text, at = fields.nullable_text(data, at)
        at = fields.end(data, at)
        partitions.append(number)
        offsets.append(offset)
        epochs.append(epoch)
        metadata.append(text or "")
    return AskedTopic(key, partitions, offsets, epochs, metadata if any(metadata) else None), fields.end(data, at)
