"""How compiled code reads keys and values of the offsets topic, by address: the fields of a commit.

It accepts the commits that groups/log/records.py accepts, and only reads inside the bounds of its arguments.
Layout of a commit: Kafka's OffsetCommitKey and OffsetCommitValue.
"""

import numpy as np

from ottla.protocol.arrow.primitives import WORD_BYTES, Int, byte_at, helper, jit, swapped, word_at

_INT_BYTES_MAX = 5
_VALUE_VERSION_MAX = 4
_FIRST_KIND_UNKNOWN = 3
UUID_BYTES = 16
_HIGH_BITS = np.uint64(0x8080808080808080)
# The kind of a key: a commit, an unknown type, or one for the plain decoder.
COMMIT, UNKNOWN_TYPE, OTHER = range(3)


@helper
def number_at(at: Int, size: Int) -> Int:
    """A signed big-endian number of at most 4 bytes."""
    number = (byte_at(at) ^ 0x80) - 0x80
    for byte in range(1, size):
        number = number << 8 | byte_at(at + byte)
    return number


@helper
def _long(at: Int) -> Int:
    """A signed big-endian number of 8 bytes."""
    return np.int64(swapped(word_at(at)))


@helper
def _uvarint(at: Int, end: Int) -> tuple[Int, Int]:
    """An unsigned varint of at most 5 bytes: (value, address after it), the address -1 when it does not end before `end`."""
    last = min(end, at + _INT_BYTES_MAX)
    value, shift, after = np.int64(0), np.int64(0), np.int64(-1)
    while at < last:
        byte = byte_at(at)
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            after = at
            break
    return value, after


@helper
def _continues(at: Int, end: Int, count: Int) -> Int:
    """Whether so many bytes follow before `end` that go on with a character."""
    sound = end - at >= count
    for byte in range(count):
        sound = sound and byte_at(at + byte) & 0xC0 == 0x80
    return sound


@jit
def _is_utf8(at: Int, end: Int) -> Int:
    """Whether the bytes are UTF-8 as Python reads it: shortest forms, no surrogates, nothing above U+10FFFF."""
    while at < end:
        if end - at >= WORD_BYTES and word_at(at) & _HIGH_BITS == 0:
            at += WORD_BYTES
            continue
        lead = byte_at(at)
        at += 1
        if lead < 0x80:
            continue
        more = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if lead < 0xC2 or lead > 0xF4 or not _continues(at, end, more):
            return False
        second = byte_at(at)
        if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
            return False
        if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
            return False
        at += more
    return True


@jit
def text_at(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A string with a 16-bit length: (its address, its length, the address after it or -1)."""
    if at < 0 or end - at < 2:
        return at, np.int64(0), np.int64(-1)
    length, start = number_at(at, 2), at + 2
    if length < 0 or length > end - start or not _is_utf8(start, start + length):
        return start, np.int64(0), np.int64(-1)
    return start, length, start + length


@jit
def _compact_text(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A string with a varint length: as `text_at`."""
    length, start = _uvarint(at, end)
    length -= 1
    if start < 0 or length < 0 or length > end - start or not _is_utf8(start, start + length):
        return start, np.int64(0), np.int64(-1)
    return start, length, start + length


@jit
def _topic_id(at: Int, end: Int) -> tuple[Int, Int]:
    """The topic id among tagged fields: (its address, 0 when there is none; whether the fields are sound)."""
    found = np.int64(0)
    count, at = _uvarint(at, end)
    while at >= 0 and count > 0:
        tag, at = _uvarint(at, end)
        if at >= 0:
            length, at = _uvarint(at, end)
            if at >= 0 and length > end - at:
                at = np.int64(-1)
            elif at >= 0:
                if tag == 0:
                    # Of two, the last one counts, and it alone must be as long as an id is.
                    found = at if length == UUID_BYTES else np.int64(-1)
                at += length
        count -= 1
    return max(found, 0), at >= 0 and found >= 0


@helper
def read_value(at: Int, end: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int, Int]:
    """A commit's value: (whether it is sound, offset, leader epoch, address and length of the metadata, time of the commit, time when it
    expires, address of the topic id or 0)."""
    nothing = np.int64(0)
    broken = (False, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    version = number_at(at, 2) if end - at >= 2 else np.int64(-1)
    at += 2
    head_bytes = 12 if version >= 3 else 8
    if version < 0 or version > _VALUE_VERSION_MAX or end - at < head_bytes:
        return broken
    offset, epoch = _long(at), number_at(at + 8, 4) if version >= 3 else np.int64(-1)
    at += head_bytes
    if version == _VALUE_VERSION_MAX:
        metadata_at, length, at = _compact_text(at, end)
    else:
        metadata_at, length, at = text_at(at, end)
    tail_bytes = 16 if version == 1 else 8
    if at < 0 or end - at < tail_bytes:
        return broken
    expires_ms = _long(at + 8) if version == 1 else np.int64(-1)
    topic_id_at, is_sound = np.int64(0), True
    if version == _VALUE_VERSION_MAX:
        topic_id_at, is_sound = _topic_id(at + tail_bytes, end)
    return is_sound, offset, epoch, metadata_at, length, _long(at), expires_ms, topic_id_at


@helper
def read_key(at: Int, length: Int) -> tuple[Int, Int, Int, Int, Int, Int]:
    """A record's key: (COMMIT, UNKNOWN_TYPE or OTHER, address and length of the group's id and of the topic, partition)."""
    nothing, end = np.int64(0), at + length
    kind = number_at(at, 2) if length >= 2 else np.int64(-1)
    if kind >= _FIRST_KIND_UNKNOWN:
        return UNKNOWN_TYPE, nothing, nothing, nothing, nothing, nothing
    if kind == 0 or kind == 1:
        group_at, group_bytes, at = text_at(at + 2, end)
        topic_at, topic_bytes, at = text_at(at, end)
        if at >= 0 and end - at >= 4:
            return COMMIT, group_at, group_bytes, topic_at, topic_bytes, number_at(at, 4)
    return OTHER, nothing, nothing, nothing, nothing, nothing
