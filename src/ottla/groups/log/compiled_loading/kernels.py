"""Numba kernels that load groups: records walked, commits read and reduced by their keys, no Python object a record.

They accept what the plain codecs accept (protocol/records for records, groups/log/records.py for commits), and only read inside the bounds
of their arguments. What is no sound commit is left to the plain decoder, which decodes it or says what is wrong with it.
Layout of a commit: Kafka's OffsetCommitKey and OffsetCommitValue.
"""

import numpy as np

from ottla.groups.log.arrow.commit_reading import COMMIT, UNKNOWN_TYPE, UUID_BYTES, read_key, read_value
from ottla.groups.log.compiled_loading.tables import (
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
from ottla.protocol.arrow.batch_scan import (
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
    checked_sum,
)
from ottla.protocol.arrow.primitives import WORD_BYTES, Array, Int, address_of, head, headers, helper, jit, load, span, store
from ottla.protocol.records.batch import RECORD_BYTES_MIN

# Where a call stopped, so that the next one continues there; and the counts that are kept between calls, after those of the tables.
CURSOR_BATCH, CURSOR_AT, CURSOR_LEFT, REST, UNKNOWN, SEED = range(3, 9)
STATE_WORDS = 9
# Columns of the records that are left to the plain decoder: where key and value lie (length -1: null), and the record's offset.
REST_KEY_AT, REST_KEY_LENGTH, REST_VALUE_AT, REST_VALUE_LENGTH, REST_OFFSET = range(5)
REST_COLUMNS = 5

FULL = -1
"""A table has no space for one more record: make space and call again."""
STRINGS_A_RECORD_MAX = 4


@helper
def _put(strings: tuple[Int, ...], row_at: Int, state_at: Int, value: tuple[Int, ...]) -> None:
    """Set a key's commit. value: as `read_value` returned it."""
    _, offset, epoch, metadata_at, metadata_bytes, committed_ms, expires_ms, topic_id_at = value
    store(row_at, OFFSET, offset)
    store(row_at, LEADER_EPOCH, epoch)
    store(row_at, METADATA, string_of(strings, state_at, metadata_at, metadata_bytes))
    store(row_at, COMMITTED_MS, committed_ms)
    store(row_at, EXPIRES_MS, expires_ms)
    store(row_at, TOPIC_ID, string_of(strings, state_at, topic_id_at, UUID_BYTES) if topic_id_at else np.int64(FREE))
    store(row_at, IS_THERE, 1)


@jit
def _reduce_record(
    at: Int, end: Int, offset: Int, plain_at: Int, strings: tuple[Int, ...], commits: tuple[Int, ...], rest_at: Int, state_at: Int
) -> Int:
    """Reduce the record whose key's length is at an address; whether it is well-formed."""
    key_at, key_bytes, at = span(at, end)
    if at < 0:
        return False
    value_at, value_bytes, at = span(at, end)
    if at < 0 or headers(at, end)[1] < 0:
        return False
    key = read_key(key_at, key_bytes)
    if key[0] == UNKNOWN_TYPE:
        store(state_at, UNKNOWN, load(state_at, UNKNOWN) + 1)
        return True
    if key[0] == COMMIT:
        value = read_value(value_at, value_at + value_bytes)
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


@jit
def reduce_batches(
    plain: Array, table: Array, is_read: Array, strings: tuple[Array, ...], commits: tuple[Array, ...], rest: Array, state: Array
) -> Int:
    """Reduce the records of the batches that are read, from where `state` says on; a status: FULL until all of them are reduced.

    plain: the bytes that START and END of `table` (columns: see batch_scan) point into. strings: (slots, rows, arena); commits:
    (slots, rows). rest: space for records that are left to the plain decoder; it must be emptied after every call.
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
            space = arena.size - load(state_at, ARENA_BYTES)
            has_space = load(state_at, STRINGS) <= strings_max and load(state_at, COMMITS) < commits_max and space >= record_end - key_at
            if not has_space or load(state_at, REST) >= rest.shape[0]:
                state[CURSOR_AT], state[CURSOR_LEFT] = at - plain_at, left
                return FULL
            if not checked_sum(base_ms, delta_ms)[1]:
                return BAD_TIMESTAMP
            if not _reduce_record(key_at, record_end, base + offset_delta, plain_at, string_tables, key_tables, rest_at, state_at):
                return BAD_RECORD
            at = record_end
            left -= 1
        if at != end:
            return BYTES_LEFT_OVER
        state[CURSOR_AT] = -1
    state[CURSOR_BATCH] = 0
    return OK
