"""The offsets of an OffsetCommit in columns, one object for each topic whatever its number of partitions, and their bytes in a batch.

In the log they are ordinary records. The records of a topic differ in a few numbers and in their metadata; one struct packs all whose
metadata have the same size, with the bytes that the codec gives for each (a property test). Only offsets with their own expiry
(OffsetCommit v2-4) are encoded one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, repeat
from struct import Struct
from typing import Final, NamedTuple

from ottla.coordinator.effects import LazySequence
from ottla.groups.log.records import GroupRecord, OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.record_codec import NO_ID
from ottla.protocol.records.batch import put_varint
from ottla.protocol.wire.primitives import Writer


class TopicOffsets(NamedTuple):
    """Offsets of one topic in columns of equal length: `offsets[i]` belongs to `partitions[i]`.

    `metadata` None: no partition has any, the usual case. Of a partition that occurs twice the later one counts.
    """

    topic: str
    topic_id: bytes
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None = None


def partition_count(topics: Sequence[TopicOffsets]) -> int:
    """The partitions of all topics."""
    return len(topics[0].partitions) if len(topics) == 1 else sum([len(topic.partitions) for topic in topics])


class CommittedOffsets(LazySequence[OffsetRecord]):
    """The records that one OffsetCommit stores, one for each partition in the order of the request, created on demand.

    `expire_timestamp_ms` is None unless the commit asked for its own expiry; then leader epochs and topic ids are the unknown ones.
    """

    __slots__ = ("_count", "commit_timestamp_ms", "expire_timestamp_ms", "group_id", "topics")

    def __init__(
        self, group_id: str, topics: tuple[TopicOffsets, ...], *, commit_timestamp_ms: int, expire_timestamp_ms: int | None = None
    ) -> None:
        self.group_id = group_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topics = topics if expire_timestamp_ms is None else tuple(map(_of_version_1, topics))
        self._count = partition_count(topics)

    def __len__(self) -> int:
        return self._count

    def values(self, topic: TopicOffsets) -> Iterator[OffsetValue]:
        """The values of one of its topics, one for each partition."""
        metadata = repeat("") if topic.metadata is None else topic.metadata
        columns = zip(
            topic.offsets,
            topic.leader_epochs,
            metadata,
            repeat(self.commit_timestamp_ms),
            repeat(self.expire_timestamp_ms),
            repeat(topic.topic_id),
            strict=False,
        )
        return map(tuple.__new__, repeat(OffsetValue), columns)

    def _make(self) -> tuple[OffsetRecord, ...]:
        return tuple(
            OffsetRecord(group_id=self.group_id, topic=topic.topic, partition=partition, value=value)
            for topic in self.topics
            for partition, value in zip(topic.partitions, self.values(topic), strict=True)
        )


def _of_version_1(topic: TopicOffsets) -> TopicOffsets:
    # The only value version with an expiry contains neither epoch nor topic id: a restart would lose them, so they are dropped now.
    return topic._replace(topic_id=NO_ID, leader_epochs=[-1] * len(topic.partitions))


_FIRST_OF_WIDTH: Final = (0, 0, 1 << 6, 1 << 13, 1 << 20, 1 << 27, 1 << 31)
"""By number of bytes: the first record number that takes so many as a zig-zag varint."""
_CACHE_SIZE: Final = 4096


class _Sized(NamedTuple):
    """The common parts of records whose keys, numbers and metadata have the same sizes.

    `head`: the record's size and attributes; `value`: the value's size and version; `prefix`: the metadata's size.
    """

    pack: Callable[..., bytes]
    head: bytes
    value: bytes
    prefix: bytes


class _Topic(NamedTuple):
    """The common parts of a topic's records whose numbers have the same size.

    `key`: the key up to the partition, after its size; `tail`: the end of the value and of the record; `bare`: without metadata.
    """

    key: bytes
    tail: bytes
    bare: _Sized


def frame_records(records: Sequence[GroupRecord], first: int) -> bytes:
    """Encode records of a batch, the first of them number `first`; all have the batch's timestamp and no headers."""
    if isinstance(records, CommittedOffsets):
        return frame_offsets(records, first)
    section = bytearray()
    for number, record in enumerate(records, first):
        _put_record(section, number, encode_key(record), encode_value(record))
    return bytes(section)


def frame_offsets(commit: CommittedOffsets, first: int) -> bytes:
    """Encode the records of a commit, the first of them number `first` of its batch."""
    if commit.expire_timestamp_ms is not None:
        return frame_records(tuple(commit), first)
    parts: list[bytes] = []
    for topic in commit.topics:
        end = first + len(topic.partitions)
        if end == first + 1:
            parts.append(_frame_one(commit, topic, first))
            first = end
            continue
        width = 1 if end <= _FIRST_OF_WIDTH[2] else _width(first)
        if end <= _FIRST_OF_WIDTH[width + 1]:
            parts += _frame_part(commit, topic, first, width)
        else:
            _frame_by_width(parts, commit, topic, first)
        first = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _frame_one(commit: CommittedOffsets, topic: TopicOffsets, first: int) -> bytes:
    """Encode the record of a topic with one partition."""
    name, topic_id, (partition,), (offset,), (epoch,), metadata = topic
    width = 1 if first < _FIRST_OF_WIDTH[2] else _width(first)
    key, tail, (pack, head, value, prefix) = _topic(commit.group_id, name, topic_id, width)
    if metadata is not None:
        text = metadata[0].encode()
        pack, head, value, prefix = _sized(width, len(key), len(text), len(tail))
        prefix += text
    (number,) = _numbers(first, 1, width)
    return pack(head, number, key, partition, value, offset, epoch, prefix, commit.commit_timestamp_ms, tail)


def _width(number: int) -> int:
    """How many bytes a record number takes."""
    width = 1
    while number >= _FIRST_OF_WIDTH[width + 1]:
        width += 1
    return width


def _frame_by_width(parts: list[bytes], commit: CommittedOffsets, topic: TopicOffsets, first: int) -> None:
    """Encode records whose numbers take different numbers of bytes."""
    begin, count = 0, len(topic.partitions)
    while begin < count:
        width = _width(first + begin)
        end = min(count, _FIRST_OF_WIDTH[width + 1] - first)
        parts += _frame_part(commit, _part(topic, begin, end), first + begin, width)
        begin = end


def _part(topic: TopicOffsets, begin: int, end: int) -> TopicOffsets:
    columns = topic.partitions[begin:end], topic.offsets[begin:end], topic.leader_epochs[begin:end]
    return TopicOffsets(topic.topic, topic.topic_id, *columns, None if topic.metadata is None else topic.metadata[begin:end])


def _frame_part(commit: CommittedOffsets, topic: TopicOffsets, first: int, width: int) -> Iterable[bytes]:
    """Encode records whose numbers all take `width` bytes."""
    _, _, partitions, offsets, epochs, metadata = topic
    key, tail, (pack, head, value, prefix) = _topic(commit.group_id, topic.topic, topic.topic_id, width)
    time_ms, numbers = commit.commit_timestamp_ms, _numbers(first, len(partitions), width)
    texts: Sequence[bytes] | repeat[bytes]
    if metadata is None:
        texts = repeat(prefix)
    else:
        bare = [text.encode() for text in metadata]
        sized = {size: _sized(width, len(key), size, len(tail)) for size in set(map(len, bare))}
        if len(sized) > 1:
            rows = zip(numbers, partitions, offsets, epochs, bare, [sized[len(text)] for text in bare], strict=True)
            return [
                pack(head, number, key, partition, value, offset, epoch, prefix + text, time_ms, tail)
                for number, partition, offset, epoch, text, (pack, head, value, prefix) in rows
            ]
        ((pack, head, value, prefix),) = sized.values()
        texts = [prefix + text for text in bare]
    return map(
        pack,
        repeat(head),
        numbers,
        repeat(key),
        partitions,
        repeat(value),
        offsets,
        epochs,
        texts,
        repeat(time_ms),
        repeat(tail),
    )


def _numbers(first: int, count: int, width: int) -> Iterable[int] | Iterable[bytes]:
    """The record numbers as the struct for their width packs them."""
    if width == 1:
        return range(first << 1, (first + count) << 1, 2)
    if width == 2:
        # The second byte is the same in 64 numbers, of which the first byte grows by two.
        bounds = [first, *range((first | 63) + 1, first + count, 64), first + count]
        return chain.from_iterable([range(_two_bytes(begin), _two_bytes(end - 1) + 1, 2 << 8) for begin, end in pairwise(bounds)])
    return map(_varint, range(first, first + count))


def _two_bytes(number: int) -> int:
    """A zig-zag varint of two bytes, as a 16-bit number."""
    return (number << 1 & 0x7F | 0x80) << 8 | number >> 6


@lru_cache(maxsize=_CACHE_SIZE)
def _topic(group_id: str, topic: str, topic_id: bytes, width: int) -> _Topic:
    key = Writer().int16(1).string(group_id).string(topic).to_bytes()
    key = _varint(len(key) + 4) + key
    tags = b"\0" if topic_id == NO_ID else b"\x01\0" + bytes([len(topic_id)]) + topic_id
    tail = tags + b"\0"  # no headers
    return _Topic(key, tail, _sized(width, len(key), 0, len(tail)))


@lru_cache(maxsize=_CACHE_SIZE)
def _sized(width: int, key_bytes: int, metadata_bytes: int, tail_bytes: int) -> _Sized:
    prefix = Writer().uvarint(metadata_bytes + 1).to_bytes()
    metadata_bytes += len(prefix)
    value_bytes = 2 + 8 + 4 + metadata_bytes + 8 + tail_bytes - 1
    value = _varint(value_bytes) + b"\0\x04"
    head = _varint(2 + width + key_bytes + 4 + len(value) - 2 + value_bytes + 1) + b"\0\0"
    number = {1: "B", 2: "H"}.get(width, f"{width}s")
    struct = Struct(f">{len(head)}s{number}{key_bytes}si{len(value)}sqi{metadata_bytes}sq{tail_bytes}s")
    return _Sized(struct.pack, head, value, prefix)


def _varint(number: int) -> bytes:
    out = bytearray()
    put_varint(out, number)
    return bytes(out)


def _put_record(section: bytearray, number: int, key: bytes, value: bytes | None) -> None:
    body = bytearray(2)  # attributes: none; timestamp: the batch's
    put_varint(body, number)
    put_varint(body, len(key))
    body += key
    put_varint(body, -1 if value is None else len(value))
    body += value or b""
    body.append(0)
    put_varint(section, len(body))
    section += body
