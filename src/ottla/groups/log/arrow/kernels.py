"""Numba kernels that read the offsets topic: the fields of a commit by address, and records into the buffers of Arrow columns.

Columns are all fields of commits, and the common ones of other records. Every record becomes a row: what it does not have, or what cannot
be read, is null; what is no commit is left to the plain decoder.

Loading and columns read commits by the same functions. They accept the commits that groups/log/records.py accepts, and only read inside
the bounds of their arguments. Layout of a commit: Kafka's OffsetCommitKey and OffsetCommitValue.
"""

import numpy as np

from ottla.groups.log.records import CONSUMER_RECORD_TYPES
from ottla.protocol.arrow.primitives import WORD_BYTES, Int, byte_at, helper, jit, load, put_byte, put_half, record, store, swapped, word_at
from ottla.protocol.arrow.record_kernels import (
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    CURSOR_BATCH,
    FULL,
    LAST_OFFSET_DELTA,
    OK,
    READ,
    ROWS,
    TABLE_COLUMNS,
    begin_batch,
    end_batch,
    put_bytes,
    put_null,
    time_us,
    times,
)
from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES

_INT_BYTES_MAX = 5
_VALUE_VERSION_MAX = 4
_FIRST_KIND_UNKNOWN = 3
UUID_BYTES = 16
_HIGH_BITS = np.uint64(0x8080808080808080)
# The kind of a key: a commit, an unknown type, or one for the plain decoder.
COMMIT, UNKNOWN_TYPE, OTHER = range(3)

# Where the columns are, as addresses, 0 for a column that is not wanted. Numbers have two words: data, and bits of validity. Strings have
# four: offsets (int32), data, bits of validity, space for data, which is endless for a column that is not wanted. REST: see below.
OFFSET, TIMESTAMP, RECORD_TYPE, TOPIC_PARTITION, COMMITTED_OFFSET, LEADER_EPOCH, COMMIT_TIMESTAMP, EXPIRE_TIMESTAMP = range(0, 16, 2)
VALUE_VERSION, IS_KNOWN, IS_TOMBSTONE = range(16, 22, 2)
GROUP, TOPIC, METADATA, TOPIC_ID = range(22, 38, 4)
REST, ROWS_MAX, OUT_WORDS = 38, 39, 40
# The state begins as that of the other records does (record_kernels). Behind ROWS come the rows of REST, and a word for each word above:
# how many nulls the column has, and for strings in the next word how many bytes of data are used.
REST_ROWS, FILLED = 4, 5
STATE_WORDS = FILLED + OUT_WORDS
# Of each record that is left to the plain decoder: its row, and addresses and lengths (-1: null) of key and value.
REST_ROW, REST_KEY_AT, REST_KEY_LENGTH, REST_VALUE_AT, REST_VALUE_LENGTH = range(5)
REST_COLUMNS = 5

TOPIC_ID_CHARS = 22
_HALF_BYTES = 4
_KNOWN_TYPES = sum(1 << number for number in OFFSETS_TOPIC_TYPES)
_CONSUMER_TYPES = sum(1 << number for number in CONSUMER_RECORD_TYPES)
_TYPES_MAX = 62
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_BASE64_URL = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8).copy()


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
    if kind >= _FIRST_KIND_UNKNOWN and (kind > _TYPES_MAX or (np.int64(_CONSUMER_TYPES) >> kind) & 1 == 0):
        return UNKNOWN_TYPE, nothing, nothing, nothing, nothing, nothing
    if kind == 0 or kind == 1:
        group_at, group_bytes, at = text_at(at + 2, end)
        topic_at, topic_bytes, at = text_at(at, end)
        if at >= 0 and end - at >= 4:
            return COMMIT, group_at, group_bytes, topic_at, topic_bytes, number_at(at, 4)
    return OTHER, nothing, nothing, nothing, nothing, nothing


@helper
def _null(out_at: Int, state_at: Int, row: Int, column: Int, bits_word: Int) -> None:
    put_null(load(out_at, column + bits_word), row, load(out_at, ROWS_MAX), state_at, FILLED + column)


@helper
def _put_long(out_at: Int, state_at: Int, row: Int, column: Int, number: Int, is_there: Int) -> None:
    """Write a number of 64 bits as a row, or null."""
    data = load(out_at, column)
    if data != 0:
        store(data, row, number)
        if not is_there:
            _null(out_at, state_at, row, column, 1)


@helper
def _put_int(out_at: Int, state_at: Int, row: Int, column: Int, number: Int, is_there: Int) -> None:
    """Write a number of 32 bits as a row, or null."""
    data = load(out_at, column)
    if data != 0:
        put_half(data + _HALF_BYTES * row, number)
        if not is_there:
            _null(out_at, state_at, row, column, 1)


@helper
def _put_time(out_at: Int, state_at: Int, row: Int, column: Int, time_ms: Int, is_there: Int) -> None:
    """Write a time in microseconds as a row, or null; null too where 64 bits do not hold it."""
    fits = is_there and -_TIMESTAMP_MS_MAX <= time_ms <= _TIMESTAMP_MS_MAX
    _put_long(out_at, state_at, row, column, time_ms * 1000 if fits else np.int64(0), fits)


@helper
def _put_flag(out_at: Int, row: Int, column: Int, flag: Int) -> None:
    """Write one bit as a row; rows come in their order."""
    data = load(out_at, column)
    if data != 0:
        at, bit = data + (row >> 3), np.int64(flag) << (row & 7)
        put_byte(at, bit if row & 7 == 0 else byte_at(at) | bit)


@helper
def _put_text(out_at: Int, state_at: Int, row: Int, column: Int, at: Int, length: Int, source_end: Int) -> None:
    """Write a string as a row, null for a length of -1."""
    offsets = load(out_at, column)
    if offsets != 0:
        used = load(state_at, FILLED + column + 1)
        if row == 0:
            put_half(offsets, 0)
        if length >= 0:
            put_bytes(load(out_at, column + 1) + used, at, length, source_end)
            used += length
            store(state_at, FILLED + column + 1, used)
        else:
            _null(out_at, state_at, row, column, 2)
        put_half(offsets + _HALF_BYTES * (row + 1), used)


@helper
def _put_topic_id(out_at: Int, state_at: Int, row: Int, at: Int) -> None:
    """Write a topic id as Kafka's base64 text; null where there is none (address 0) or it is all zeros."""
    offsets = load(out_at, TOPIC_ID)
    if offsets != 0:
        used = load(state_at, FILLED + TOPIC_ID + 1)
        if row == 0:
            put_half(offsets, 0)
        if at != 0 and (word_at(at) | word_at(at + WORD_BYTES)) != 0:
            to = load(out_at, TOPIC_ID + 1) + used
            for place in range(TOPIC_ID_CHARS):
                bit = 6 * place
                byte = bit >> 3
                pair = byte_at(at + byte) << 8 | (byte_at(at + byte + 1) if byte + 1 < UUID_BYTES else np.int64(0))
                put_byte(to + place, np.int64(_BASE64_URL[pair >> (10 - (bit & 7)) & 63]))
            used += TOPIC_ID_CHARS
            store(state_at, FILLED + TOPIC_ID + 1, used)
        else:
            _null(out_at, state_at, row, TOPIC_ID, 2)
        put_half(offsets + _HALF_BYTES * (row + 1), used)


@helper
def _put_commit_value(out_at: Int, state_at: Int, row: Int, value: tuple[Int, ...], is_there: Int, source_end: Int) -> None:
    """Write the fields of a commit's value, or nulls. value: as `read_value` returned it."""
    _, offset, epoch, metadata_at, metadata_bytes, committed_ms, expires_ms, topic_id_at = value
    _put_long(out_at, state_at, row, COMMITTED_OFFSET, offset, is_there)
    _put_int(out_at, state_at, row, LEADER_EPOCH, epoch, is_there)
    _put_text(out_at, state_at, row, METADATA, metadata_at, metadata_bytes if is_there else np.int64(-1), source_end)
    _put_time(out_at, state_at, row, COMMIT_TIMESTAMP, committed_ms, is_there)
    _put_time(out_at, state_at, row, EXPIRE_TIMESTAMP, expires_ms, is_there and expires_ms != -1)
    _put_topic_id(out_at, state_at, row, topic_id_at if is_there else np.int64(0))


@helper
def _note_rest(out_at: Int, state_at: Int, row: Int, key: tuple[Int, Int], value: tuple[Int, Int]) -> None:
    """Leave a record to the plain decoder, where one of its columns is wanted."""
    rest = load(out_at, REST)
    if rest != 0:
        number = load(state_at, REST_ROWS)
        at = rest + number * (REST_COLUMNS * WORD_BYTES)
        store(at, REST_ROW, row)
        store(at, REST_KEY_AT, key[0])
        store(at, REST_KEY_LENGTH, key[1])
        store(at, REST_VALUE_AT, value[0])
        store(at, REST_VALUE_LENGTH, value[1])
        store(state_at, REST_ROWS, number + 1)


@helper
def _put_record(out_at: Int, state_at: Int, row: Int, key: tuple[Int, Int], value: tuple[Int, Int], source_end: Int) -> None:
    """Write the columns of a record's key and value (address, length or -1)."""
    nothing, none = np.int64(0), np.int64(-1)
    key_at, key_length = key
    value_at, value_length = value
    has_type = key_length >= 2
    record_type = number_at(key_at, 2) if has_type else none
    is_listed = record_type >= 0 and record_type <= _TYPES_MAX and (np.int64(_KNOWN_TYPES) >> record_type) & 1 == 1
    group_at, group_bytes, topic_at, topic_bytes, partition = nothing, none, nothing, none, nothing
    is_commit_key = is_known = is_there = False
    commit = (False, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    if record_type == 0 or record_type == 1:
        kind, group_at, group_bytes, topic_at, topic_bytes, partition = read_key(key_at, key_length)
        is_commit_key = kind == COMMIT
        if not is_commit_key:
            group_bytes = topic_bytes = none
        elif value_length < 0:
            is_known = True
        else:
            commit = read_value(value_at, value_at + value_length)
            is_known = is_there = commit[0]
    elif is_listed:
        group_at, group_bytes, after = text_at(key_at + 2, key_at + key_length)
        group_bytes = group_bytes if after >= 0 else none
        _note_rest(out_at, state_at, row, key, value)
    _put_int(out_at, state_at, row, RECORD_TYPE, record_type, has_type)
    has_version = is_listed and value_length >= 2
    _put_int(out_at, state_at, row, VALUE_VERSION, number_at(value_at, 2) if has_version else nothing, has_version)
    _put_flag(out_at, row, IS_KNOWN, is_known)
    _put_flag(out_at, row, IS_TOMBSTONE, value_length < 0)
    _put_text(out_at, state_at, row, GROUP, group_at, group_bytes, source_end)
    _put_text(out_at, state_at, row, TOPIC, topic_at, topic_bytes, source_end)
    _put_int(out_at, state_at, row, TOPIC_PARTITION, partition, is_commit_key)
    _put_commit_value(out_at, state_at, row, commit, is_there, source_end)


@helper
def _has_space(out_at: Int, state_at: Int, row: Int, key_length: Int, value_length: Int) -> Int:
    has_space = row < load(out_at, ROWS_MAX)
    for column, bytes_max in ((GROUP, key_length), (TOPIC, key_length), (METADATA, value_length), (TOPIC_ID, np.int64(TOPIC_ID_CHARS))):
        has_space = has_space and load(state_at, FILLED + column + 1) + bytes_max <= load(out_at, column + 3)
    return has_space


@jit
def _decode_batch(work: tuple[Int, ...], b: Int, bounds: tuple[Int, Int], out_at: Int, state_at: Int) -> Int:
    status, at, left, end = begin_batch(work, b, state_at)
    if status != OK or byte_at(work[2] + b) != READ:
        return status
    row_at = work[1] + b * (TABLE_COLUMNS * WORD_BYTES)
    base_offset, last_delta, (base_ms, is_log_append_time) = load(row_at, BASE_OFFSET), load(row_at, LAST_OFFSET_DELTA), times(row_at)
    row = load(state_at, ROWS)
    while left > 0:
        delta_ms, offset_delta, key, value, _, record_end = record(at, end, last_delta)
        if record_end < 0:
            status = np.int64(BAD_RECORD)
            break
        if bounds[0] <= base_offset + offset_delta < bounds[1]:
            timestamp_us, fits = time_us(base_ms, np.int64(0) if is_log_append_time else delta_ms)
            if not fits:
                status = np.int64(BAD_TIMESTAMP)
                break
            if not _has_space(out_at, state_at, row, key[1], value[1]):
                status = np.int64(FULL)
                break
            _put_long(out_at, state_at, row, OFFSET, base_offset + offset_delta, True)
            _put_long(out_at, state_at, row, TIMESTAMP, timestamp_us, True)
            _put_record(out_at, state_at, row, key, value, end)
            row += 1
        at = record_end
        left -= 1
    store(state_at, ROWS, row)
    return end_batch(status, at, left, end, work[0], state_at)


@jit
def decode(
    source_at: Int,
    table_at: Int,
    tasks_at: Int,
    is_checked: Int,
    batches: Int,
    first_offset: Int,
    end_offset: Int,
    out_at: Int,
    state_at: Int,
) -> Int:
    """Read records of the offsets topic from the cursor on; all as in `record_kernels.decode`, but for the columns (see above)."""
    work = (source_at, table_at, tasks_at, is_checked)
    for b in range(load(state_at, CURSOR_BATCH), batches):
        store(state_at, CURSOR_BATCH, b)
        status = _decode_batch(work, b, (first_offset, end_offset), out_at, state_at)
        if status != OK:
            return status
    store(state_at, CURSOR_BATCH, batches)
    return np.int64(OK)
