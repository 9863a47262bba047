"""Records of offsets as they lie in a batch, many at once: the same bytes that each record's key and value would give one by one.

Only the offset that no metadata comes with, and that does not say when it expires, has a short cut here: that is how clients commit.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.groups.committed import CommittedOffsets, TopicOffsets
from ottla.core.groups.records import NO_TOPIC_ID, GroupRecord, encode_key, encode_value
from ottla.core.records.record import put_varint
from ottla.core.wire import Writer

_ONE_BYTE: Final = 1 << 6
_TWO_BYTES: Final = 1 << 13
"""Offsets in a batch below these take one byte and two, zig-zag."""
_KEPT: Final = 4096


class _Shape(NamedTuple):
    """All bytes of a topic's records but the numbers: offset in the batch, partition, offset, epoch, time of the commit."""

    narrow: Struct
    narrow_head: bytes
    wide: Struct
    wide_head: bytes
    key: bytes
    value: bytes
    before_time: bytes
    tail: bytes


def frame_records(records: Sequence[GroupRecord], first: int) -> bytes:
    """Records of a batch, of which they are those from number `first` on; all have the batch's own timestamp and no headers."""
    if isinstance(records, CommittedOffsets):
        return frame_offsets(records, first)
    section = bytearray()
    for number, record in enumerate(records, first):
        _put_record(section, number, encode_key(record), encode_value(record))
    return bytes(section)


def frame_offsets(commit: CommittedOffsets, first: int) -> bytes:
    """The records of a commit, the first of which is number `first` of its batch."""
    if commit.expire_timestamp_ms is not None:
        return frame_records(tuple(commit), first)
    parts: list[bytes] = []
    for topic in commit.topics:
        end = first + len(topic.partitions)
        if topic.metadata is None and end <= _TWO_BYTES:
            parts += _frame_topic(commit, topic, first)
        else:
            alone = CommittedOffsets(commit.group_id, (topic,), commit_timestamp_ms=commit.commit_timestamp_ms)
            parts.append(frame_records(tuple(alone), first))
        first = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _frame_topic(commit: CommittedOffsets, topic: TopicOffsets, first: int) -> list[bytes]:
    count = len(topic.partitions)
    if first < _ONE_BYTE < first + count:
        narrow = _ONE_BYTE - first
        return _frame_topic(commit, _part(topic, 0, narrow), first) + _frame_topic(commit, _part(topic, narrow, count), _ONE_BYTE)
    shape = _shape(commit.group_id, topic.topic, topic.topic_id)
    numbers: Iterable[int]
    if first < _ONE_BYTE:
        pack, head, numbers = shape.narrow.pack, shape.narrow_head, range(first << 1, (first + count) << 1, 2)
    else:
        pack, head, numbers = shape.wide.pack, shape.wide_head, map(_two_bytes, range(first, first + count))
    time_ms = commit.commit_timestamp_ms
    if count == 1:
        (number,), (partition,), (offset,), (epoch,) = numbers, topic.partitions, topic.offsets, topic.leader_epochs
        return [pack(head, number, shape.key, partition, shape.value, offset, epoch, shape.before_time, time_ms, shape.tail)]
    rows = map(
        pack,
        repeat(head),
        numbers,
        repeat(shape.key),
        topic.partitions,
        repeat(shape.value),
        topic.offsets,
        topic.leader_epochs,
        repeat(shape.before_time),
        repeat(time_ms),
        repeat(shape.tail),
    )
    return list(rows)


def _part(topic: TopicOffsets, begin: int, end: int) -> TopicOffsets:
    columns = topic.partitions[begin:end], topic.offsets[begin:end], topic.leader_epochs[begin:end]
    return TopicOffsets(topic.topic, topic.topic_id, *columns)


def _two_bytes(number: int) -> int:
    """A zig-zag varint of two bytes, as a 16-bit number."""
    return (number << 1 & 0x7F | 0x80) << 8 | number >> 6


@lru_cache(maxsize=_KEPT)
def _shape(group_id: str, topic: str, topic_id: bytes) -> _Shape:
    key = Writer().int16(1).string(group_id).string(topic).to_bytes()
    before_time = b"\x01"  # no metadata, as a compact string
    tail = b"\0" if topic_id == NO_TOPIC_ID else b"\x01\0" + bytes([len(topic_id)]) + topic_id
    value_bytes = 2 + 8 + 4 + len(before_time) + 8 + len(tail)
    key = _varint(len(key) + 4) + key
    value = _varint(value_bytes) + b"\0\x04"
    tail += b"\0"  # no headers
    structs, heads = [], []
    for width, code in ((1, "B"), (2, "H")):
        size = 2 + width + len(key) + 4 + len(value) - 2 + value_bytes + 1
        heads.append(_varint(size) + b"\0\0")
        structs.append(Struct(f">{len(heads[-1])}s{code}{len(key)}si{len(value)}sqi{len(before_time)}sq{len(tail)}s"))
    return _Shape(structs[0], heads[0], structs[1], heads[1], key, value, before_time, tail)


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
