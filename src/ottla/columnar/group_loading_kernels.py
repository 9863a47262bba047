"""Numba kernels that load groups: records walked, commits read and folded by their keys, no Python object a record.

They accept what the plain codecs accept (core/records for records, core/groups/records.py for commits), and only read inside the bounds
they are given. What is no sound commit is handed to the plain decoder, which knows what it is or what is wrong with it.
Layout of a commit: Kafka's OffsetCommitKey and OffsetCommitValue.
"""

import numpy as np

from ottla.columnar.cleaning_kernels import (
    BAD_COUNT,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_MS,
    BASE_OFFSET,
    BYTES_LEFT_OVER,
    COUNT,
    END,
    LAST_OFFSET,
    OK,
    START,
    _sum,
)
from ottla.columnar.cleaning_memory import WORD_BYTES, address_of, byte_at, helper, load, store, swapped, word_at
from ottla.columnar.group_loading_tables import (
    ARENA_BYTES,
    COMMITS,
    COMMITTED_MS,
    EXPIRES_MS,
    FREE,
    IS_THERE,
    LEADER_EPOCH,
    METADATA,
    OFFSET,
    STRINGS,
    TOPIC_ID,
    commit_of,
    string_of,
)
from ottla.columnar.kernels import Array, Int, _jit
from ottla.columnar.record_reading import head, headers, span
from ottla.core.records.record import RECORD_BYTES_MIN

# Where a call stopped, so that the next one goes on there; and the counts that go from call to call, after those of the tables.
CURSOR_BATCH, CURSOR_AT, CURSOR_LEFT, REST, UNKNOWN, SEED = range(3, 9)
STATE_WORDS = 9
# Columns of the records that are left to the plain decoder: where key and value lie (length -1: null), and the record's offset.
REST_KEY_AT, REST_KEY_LENGTH, REST_VALUE_AT, REST_VALUE_LENGTH, REST_OFFSET = range(5)
REST_COLUMNS = 5

FULL = -1
"""A table has no room for what one more record may need: make room and call again."""
STRINGS_A_RECORD_MAX = 4

_INT_BYTES_MAX = 5
_VALUE_VERSION_MAX = 4
_FIRST_KIND_UNKNOWN = 3
_UUID_BYTES = 16
_HIGH_BITS = np.uint64(0x8080808080808080)
# What a key is of: a commit, a type that is not known here, or something for the plain decoder.
_COMMIT, _UNKNOWN, _OTHER = range(3)


@helper
def _number(at: Int, size: Int) -> Int:
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


@_jit
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


@_jit
def _text(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A string with a 16-bit length: (its address, its length, the address after it or -1)."""
    if at < 0 or end - at < 2:
        return at, np.int64(0), np.int64(-1)
    length, start = _number(at, 2), at + 2
    if length < 0 or length > end - start or not _is_utf8(start, start + length):
        return start, np.int64(0), np.int64(-1)
    return start, length, start + length


@_jit
def _compact_text(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A string with a varint length: as `_text`."""
    length, start = _uvarint(at, end)
    length -= 1
    if start < 0 or length < 0 or length > end - start or not _is_utf8(start, start + length):
        return start, np.int64(0), np.int64(-1)
    return start, length, start + length


@_jit
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
                    found = at if length == _UUID_BYTES else np.int64(-1)
                at += length
        count -= 1
    return max(found, 0), at >= 0 and found >= 0


@helper
def _value(at: Int, end: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int, Int]:
    """A commit's value: (whether it is sound, offset, leader epoch, address and length of the metadata, time of the commit, time when it
    expires, address of the topic id or 0)."""
    nothing = np.int64(0)
    broken = (False, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    version = _number(at, 2) if end - at >= 2 else np.int64(-1)
    at += 2
    head_bytes = 12 if version >= 3 else 8
    if version < 0 or version > _VALUE_VERSION_MAX or end - at < head_bytes:
        return broken
    offset, epoch = _long(at), _number(at + 8, 4) if version >= 3 else np.int64(-1)
    at += head_bytes
    if version == _VALUE_VERSION_MAX:
        metadata_at, length, at = _compact_text(at, end)
    else:
        metadata_at, length, at = _text(at, end)
    tail_bytes = 16 if version == 1 else 8
    if at < 0 or end - at < tail_bytes:
        return broken
    expires_ms = _long(at + 8) if version == 1 else np.int64(-1)
    topic_id_at, is_sound = np.int64(0), True
    if version == _VALUE_VERSION_MAX:
        topic_id_at, is_sound = _topic_id(at + tail_bytes, end)
    return is_sound, offset, epoch, metadata_at, length, _long(at), expires_ms, topic_id_at


@helper
def _key(at: Int, length: Int) -> tuple[Int, Int, Int, Int, Int, Int]:
    """A record's key: (_COMMIT, _UNKNOWN or _OTHER, address and length of the group's id and of the topic, partition)."""
    nothing, end = np.int64(0), at + length
    kind = _number(at, 2) if length >= 2 else np.int64(-1)
    if kind >= _FIRST_KIND_UNKNOWN:
        return _UNKNOWN, nothing, nothing, nothing, nothing, nothing
    if kind == 0 or kind == 1:
        group_at, group_bytes, at = _text(at + 2, end)
        topic_at, topic_bytes, at = _text(at, end)
        if at >= 0 and end - at >= 4:
            return _COMMIT, group_at, group_bytes, topic_at, topic_bytes, _number(at, 4)
    return _OTHER, nothing, nothing, nothing, nothing, nothing


@helper
def _put(strings: tuple[Int, ...], row_at: Int, state_at: Int, value: tuple[Int, ...]) -> None:
    """Set a key's commit. value: as `_value` gave it."""
    _, offset, epoch, metadata_at, metadata_bytes, committed_ms, expires_ms, topic_id_at = value
    store(row_at, OFFSET, offset)
    store(row_at, LEADER_EPOCH, epoch)
    store(row_at, METADATA, string_of(strings, state_at, metadata_at, metadata_bytes))
    store(row_at, COMMITTED_MS, committed_ms)
    store(row_at, EXPIRES_MS, expires_ms)
    store(row_at, TOPIC_ID, string_of(strings, state_at, topic_id_at, _UUID_BYTES) if topic_id_at else np.int64(FREE))
    store(row_at, IS_THERE, 1)


@_jit
def _fold_record(
    at: Int, end: Int, offset: Int, plain_at: Int, strings: tuple[Int, ...], commits: tuple[Int, ...], rest_at: Int, state_at: Int
) -> Int:
    """Fold the record whose key's length is at an address; whether it is well-formed."""
    key_at, key_bytes, at = span(at, end)
    if at < 0:
        return False
    value_at, value_bytes, at = span(at, end)
    if at < 0 or headers(at, end)[1] < 0:
        return False
    key = _key(key_at, key_bytes)
    if key[0] == _UNKNOWN:
        store(state_at, UNKNOWN, load(state_at, UNKNOWN) + 1)
        return True
    if key[0] == _COMMIT:
        value = _value(value_at, value_at + value_bytes)
        if value_bytes < 0 or value[0]:
            group, topic = string_of(strings, state_at, key[1], key[2]), string_of(strings, state_at, key[3], key[4])
            row_at = commit_of(commits, state_at, group, topic, key[5])
            if value_bytes < 0:
                store(row_at, IS_THERE, 0)
            else:
                _put(strings, row_at, state_at, value)
            return True
    rows = load(state_at, REST)
    row_at = rest_at + rows * (REST_COLUMNS * WORD_BYTES)
    store(row_at, REST_KEY_AT, key_at - plain_at)
    store(row_at, REST_KEY_LENGTH, key_bytes)
    store(row_at, REST_VALUE_AT, value_at - plain_at)
    store(row_at, REST_VALUE_LENGTH, value_bytes)
    store(row_at, REST_OFFSET, offset)
    store(state_at, REST, rows + 1)
    return True


@_jit
def fold(
    plain: Array, table: Array, is_read: Array, strings: tuple[Array, ...], commits: tuple[Array, ...], rest: Array, state: Array
) -> Int:
    """Fold the records of the batches that are read, from where `state` says on; a status: FULL until all of them are folded.

    plain: the bytes that START and END of `table` (columns: see cleaning_kernels) point into. strings: (slots, rows, arena); commits:
    (slots, rows). rest: room for records that are left to the plain decoder; it must be emptied after every call.
    """
    slots, rows, arena = strings
    key_slots, key_rows = commits
    plain_at, state_at, rest_at, seed = address_of(plain), address_of(state), address_of(rest), state[SEED]
    string_tables = (address_of(slots), slots.size - 1, address_of(rows), address_of(arena), seed)
    key_tables = (address_of(key_slots), key_slots.size - 1, address_of(key_rows), seed)
    strings_max, commits_max = rows.shape[0] - STRINGS_A_RECORD_MAX, key_rows.shape[0]
    for b in range(state[CURSOR_BATCH], table.shape[0]):
        state[CURSOR_BATCH] = b
        if not is_read[b]:
            continue
        if state[CURSOR_AT] < 0:
            state[CURSOR_AT], state[CURSOR_LEFT] = table[b, START], table[b, COUNT]
            if table[b, COUNT] > (table[b, END] - table[b, START]) // RECORD_BYTES_MIN:
                return BAD_COUNT
        at, end, left = plain_at + state[CURSOR_AT], plain_at + table[b, END], state[CURSOR_LEFT]
        base, base_ms = table[b, BASE_OFFSET], table[b, BASE_MS]
        last_delta = table[b, LAST_OFFSET] - base
        while left > 0:
            delta_ms, offset_delta, key_at, record_end = head(at, end, last_delta)
            if key_at < 0:
                return BAD_RECORD
            room = arena.size - load(state_at, ARENA_BYTES)
            has_room = load(state_at, STRINGS) <= strings_max and load(state_at, COMMITS) < commits_max and room >= record_end - key_at
            if not has_room or load(state_at, REST) >= rest.shape[0]:
                state[CURSOR_AT], state[CURSOR_LEFT] = at - plain_at, left
                return FULL
            if not _sum(base_ms, delta_ms)[1]:
                return BAD_TIMESTAMP
            if not _fold_record(key_at, record_end, base + offset_delta, plain_at, string_tables, key_tables, rest_at, state_at):
                return BAD_RECORD
            at = record_end
            left -= 1
        if at != end:
            return BYTES_LEFT_OVER
        state[CURSOR_AT] = -1
    state[CURSOR_BATCH] = 0
    return OK
