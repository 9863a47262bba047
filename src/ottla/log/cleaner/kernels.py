"""Numba kernels of the cleaner: whole batches checked, records walked, keys put into the map, and what is kept is written out.

Their output equals that of core/cleaning/reference.py to the byte. They only read inside the bounds of their arguments, and return a status
for any bytes, never an exception. Compression, transactions and files are the callers': kernels take plain record bytes and retentions.
"""

import numpy as np

from ottla.columnar.cleaning.digests import DIGEST_BYTES
from ottla.columnar.cleaning.offset_table import offset_of, put
from ottla.columnar.primitives.batch_scan import (
    AT,
    ATTRIBUTES,
    BAD_COUNT,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_MS,
    BASE_OFFSET,
    BYTES_LEFT_OVER,
    COUNT,
    END,
    FIRST_ROW,
    LAST_OFFSET,
    MAX_MS,
    OK,
    SIZE,
    START,
    checked_sum,
)
from ottla.columnar.primitives.checksums import crc32c
from ottla.columnar.primitives.compilation import Array, Int, helper, jit
from ottla.columnar.primitives.memory import address_of, copy, fetch, put_byte
from ottla.columnar.primitives.record_reading import head, span
from ottla.core.cleaning.backend import BatchRetention
from ottla.core.cleaning.offset_map import SLOT_BYTES
from ottla.core.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ottla.core.records.record import RECORD_BYTES_MIN

# Columns of the record table: one row a record that is read. REST_AT is where its key's length begins.
KEY_AT, KEY_LENGTH, OFFSET, TIME_MS, REST_AT, RECORD_END, HAS_VALUE, KEPT = range(8)
RECORD_COLUMNS = 8
# Columns of the table of written batches. WRITTEN_PLAIN: a rebuilt batch that must still be compressed.
WRITTEN_END, WRITTEN_LAST_OFFSET, WRITTEN_MAX_MS, WRITTEN_PLAIN = range(4)
WRITTEN_COLUMNS = 4

HEAD_BYTES_MAX = 21
"""Most bytes of a record before its key's length: length, attributes, time and offset."""
HEAD_BYTES_MIN = 4
FETCH_ROWS = 16
"""So many keys ahead a slot is fetched: the map is larger than any cache, and waiting for memory would cost more than all the rest."""

_FILTER, _FILTER_KEEP, _DROP = int(BatchRetention.FILTER), int(BatchRetention.FILTER_KEEP), int(BatchRetention.DROP)
_EMPTY, _KEEP, _KEEP_UNTIL_HORIZON = int(BatchRetention.EMPTY), int(BatchRetention.KEEP), int(BatchRetention.KEEP_UNTIL_HORIZON)
_KIND_BITS = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


@helper
def _put_big_endian(at: Int, number: Int, size: Int) -> None:
    for byte in range(size):
        put_byte(at + byte, number >> (8 * (size - 1 - byte)))


@helper
def _difference(one: Int, other: Int) -> tuple[Int, Int]:
    """One number less another, and whether that fits into 64 bits."""
    rest = np.int64(np.uint64(one) - np.uint64(other))
    return rest, ((one ^ other) & (one ^ rest)) >= 0


@jit
def _walk(plain: Array, table: Array, b: Int, records: Array, first: Int) -> Int:
    """Fill the record table from row `first` on with the records of one batch, which must fill its bytes exactly; a status."""
    start = address_of(plain)
    at, end = start + table[b, START], start + table[b, END]
    base, base_ms, max_ms = table[b, BASE_OFFSET], table[b, BASE_MS], table[b, MAX_MS]
    log_append_time = (table[b, ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0
    if table[b, COUNT] > (end - at) // RECORD_BYTES_MIN:
        return BAD_COUNT
    last_delta = table[b, LAST_OFFSET] - base
    for row in range(first, first + table[b, COUNT]):
        delta_ms, offset_delta, rest_at, record_end = head(at, end, last_delta)
        if rest_at < 0:
            return BAD_RECORD
        key_at, key_length, value_at = span(rest_at, record_end)
        if value_at < 0:
            return BAD_RECORD
        _, value_length, headers_at = span(value_at, record_end)
        if headers_at < 0:
            return BAD_RECORD
        time_ms, fits = checked_sum(base_ms, delta_ms)
        if log_append_time:
            time_ms = max_ms
        elif not fits:
            return BAD_TIMESTAMP
        records[row, KEY_AT], records[row, KEY_LENGTH] = key_at - start, key_length
        records[row, OFFSET], records[row, TIME_MS] = base + offset_delta, time_ms
        records[row, REST_AT], records[row, RECORD_END] = rest_at - start, record_end - start
        records[row, HAS_VALUE] = value_length >= 0
        at = record_end
    return OK if at == end else BYTES_LEFT_OVER


@jit
def walk(plain: Array, table: Array, is_read: Array, records: Array) -> tuple[Int, Int, Int]:
    """Fill the record table with the records of the batches that are read: (records, batches done, status).

    plain: the bytes that START and END of `table` point into. records: space for the counts of all batches that are read.
    """
    rows = 0
    for b in range(table.shape[0]):
        if is_read[b]:
            status = _walk(plain, table, b, records, rows)
            if status != OK:
                return rows, b, status
            table[b, FIRST_ROW] = rows
            rows += table[b, COUNT]
    return rows, table.shape[0], OK


@jit
def put_keys(table: Array, is_read: Array, from_offset: Int, records: Array, keys: tuple[Array, Array], memory: Array, state: Array) -> Int:
    """Put the keys of the batches that are read into the map; whether it is full: then this key and those behind it were not put.

    keys: digests (uint64, two columns) and first slots of the rows of `records`. memory: uint64, (slots, 3).
    state: (entries, latest offset, records passed, most entries); the first three are moved on.
    """
    digests, firsts = keys
    digests_at, memory_at, slots, rows = address_of(digests), address_of(memory), memory.shape[0], records.shape[0]
    entries, latest, passed, entries_max = state[0], state[1], state[2], state[3]
    row = 0
    is_full = False
    for b in range(table.shape[0]):
        next_row = row + table[b, COUNT] if is_read[b] else row
        passed += table[b, COUNT] - (next_row - row)
        while row < next_row:
            if row + FETCH_ROWS < rows:
                fetch(memory_at + firsts[row + FETCH_ROWS] * SLOT_BYTES)
            offset = records[row, OFFSET]
            if records[row, KEY_LENGTH] >= 0 and offset >= from_offset:
                is_full = entries >= entries_max
                if is_full:
                    break
                entries += put(memory_at, slots, digests_at + row * DIGEST_BYTES, firsts[row], offset)
                latest = offset
            passed += 1
            row += 1
        if is_full:
            break
        if table[b, LAST_OFFSET] >= from_offset:
            latest = table[b, LAST_OFFSET]
    state[0], state[1], state[2] = entries, latest, passed
    return is_full


@helper
def _batch_action(retention: Int, count: Int, has_horizon: Int, kept: Int, tombstones: Int) -> Int:
    """What to do with a batch of `count` records of which `kept` are kept, `tombstones` of them tombstones.

    _FILTER means: rebuilt, with its old delete horizon; _KEEP_UNTIL_HORIZON: rebuilt, with a delete horizon from now.
    """
    if retention in (_FILTER, _FILTER_KEEP):
        if kept == 0:
            return _DROP if retention == _FILTER else _EMPTY
        if tombstones > 0 and not has_horizon:
            return _KEEP_UNTIL_HORIZON
        return _KEEP if kept == count else _FILTER
    return retention


@jit
def decide(
    table: Array, retentions: Array, records: Array, keys: tuple[Array, Array], memory: Array, times: tuple[Int, Int], totals: Array
) -> None:
    """Mark the records that are kept, and replace each retention by the action for its batch (see `_batch_action`).

    keys, memory: as for `put_keys`. times: (the map's latest offset, now). totals: (records looked at, kept), moved on.
    """
    digests, firsts = keys
    digests_at, memory_at, slots, rows = address_of(digests), address_of(memory), memory.shape[0], records.shape[0]
    latest, now_ms = times
    for b in range(table.shape[0]):
        retention, count, first = retentions[b], table[b, COUNT], table[b, FIRST_ROW]
        kept = count if retention in (_KEEP, _KEEP_UNTIL_HORIZON) else 0
        if retention == _KEEP_UNTIL_HORIZON:
            records[first : first + count, KEPT] = 1
        if retention in (_FILTER, _FILTER_KEEP):
            has_horizon = (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) != 0
            keeps_tombstones = not has_horizon or now_ms < table[b, BASE_MS]
            tombstones = 0
            for row in range(first, first + count):
                if row + FETCH_ROWS < rows:
                    fetch(memory_at + firsts[row + FETCH_ROWS] * SLOT_BYTES)
                offset, has_value = records[row, OFFSET], records[row, HAS_VALUE] != 0
                is_kept = offset > latest
                if not is_kept and records[row, KEY_LENGTH] >= 0 and (has_value or keeps_tombstones):
                    is_kept = offset >= offset_of(memory_at, slots, digests_at + row * DIGEST_BYTES, firsts[row])
                records[row, KEPT] = is_kept
                kept += is_kept
                tombstones += is_kept and not has_value
            retentions[b] = _batch_action(retention, count, has_horizon, kept, tombstones)
            totals[0] += count
        totals[1] += kept


@helper
def _put_varint(at: Int, number: Int) -> Int:
    """Write a zigzag varint; the address after it."""
    rest = np.uint64((number << 1) ^ (number >> 63))
    while rest > np.uint64(0x7F):
        put_byte(at, np.int64(rest & np.uint64(0x7F)) | 0x80)
        rest >>= np.uint64(7)
        at += 1
    put_byte(at, np.int64(rest))
    return at + 1


@helper
def _varint_bytes(number: Int) -> Int:
    rest = np.uint64((number << 1) ^ (number >> 63)) >> np.uint64(7)
    size = 1
    while rest != 0:
        rest >>= np.uint64(7)
        size += 1
    return size


@helper
def _seal(at: Int, end: Int, attributes: Int, base_ms: Int, max_ms: Int, count: Int) -> None:
    """Finish a batch between two addresses, whose header was copied from the batch that it comes from."""
    _put_big_endian(at + 8, end - at - LENGTH_OVERHEAD_BYTES, 4)
    _put_big_endian(at + ATTRIBUTES_AT, attributes, 2)
    _put_big_endian(at + 27, base_ms, 8)
    _put_big_endian(at + 35, max_ms, 8)
    _put_big_endian(at + 57, count, 4)
    _put_big_endian(at + CRC_AT, crc32c(at + ATTRIBUTES_AT, end), 4)


@jit
def _rebuild(plain: Array, table: Array, b: Int, records: Array, horizon: tuple[Int, Int], at: Int) -> tuple[Int, Int, Int]:
    """Finish a batch, whose header is at an address already, with those of its records that are kept: (its end, largest timestamp, status).

    horizon: (whether there is a delete horizon, which it is).
    """
    plain_at = address_of(plain)
    end, base, first = at + HEADER_BYTES, table[b, BASE_OFFSET], table[b, FIRST_ROW]
    base_ms, max_ms, kept = np.int64(horizon[1]), np.int64(NO_TIMESTAMP), 0
    for row in range(first, first + table[b, COUNT]):
        if records[row, KEPT] == 0:
            continue
        time_ms, rest_at = records[row, TIME_MS], records[row, REST_AT]
        if kept == 0 and not horizon[0]:
            base_ms = time_ms
        kept += 1
        delta_ms, fits = _difference(time_ms, base_ms)
        if not fits:
            return end, max_ms, BAD_TIMESTAMP
        offset_delta = records[row, OFFSET] - base
        rest_bytes = records[row, RECORD_END] - rest_at
        end = _put_varint(end, 1 + _varint_bytes(delta_ms) + _varint_bytes(offset_delta) + rest_bytes)
        put_byte(end, 0)
        end = _put_varint(_put_varint(end + 1, delta_ms), offset_delta)
        copy(end, plain_at + rest_at, rest_bytes)
        end += rest_bytes
        max_ms = max(max_ms, time_ms)
    attributes = table[b, ATTRIBUTES] & (_KIND_BITS | CODEC_MASK) | (DELETE_HORIZON_BIT if horizon[0] else 0)
    _seal(at, end, attributes, base_ms, max_ms, kept)
    return end, max_ms, OK


@jit
def write(
    source: Array, plain: Array, table: Array, retentions: Array, records: Array, horizon_ms: Int, out: Array, written: Array
) -> tuple[Int, Int]:
    """Write what is kept of the batches in `table` to `out`, which has space for it: (batches written, status).

    source: the bytes that AT points into; plain: those that the record table points into. retentions, records: as `decide` left them.
    horizon_ms: the delete horizon of today. A rebuilt batch that has a codec is written with plain records.
    """
    source_at, out_at = address_of(source), address_of(out)
    at, batches = out_at, 0
    for b in range(table.shape[0]):
        retention, max_ms = retentions[b], table[b, MAX_MS]
        if retention == _DROP:
            continue
        is_rebuilt = retention not in (_KEEP, _EMPTY)
        kept_bytes = table[b, SIZE] if retention == _KEEP else HEADER_BYTES
        copy(at, source_at + table[b, AT], kept_bytes)
        end = at + kept_bytes
        if retention == _EMPTY:
            _seal(at, end, table[b, ATTRIBUTES] & _KIND_BITS, NO_TIMESTAMP, max_ms, 0)
        if is_rebuilt:
            is_new = retention == _KEEP_UNTIL_HORIZON
            horizon = (is_new or (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) != 0, horizon_ms if is_new else table[b, BASE_MS])
            end, max_ms, status = _rebuild(plain, table, b, records, horizon, at)
            if status != OK:
                return batches, status
        written[batches, WRITTEN_END], written[batches, WRITTEN_LAST_OFFSET] = end - out_at, table[b, LAST_OFFSET]
        written[batches, WRITTEN_MAX_MS] = max_ms
        written[batches, WRITTEN_PLAIN] = is_rebuilt and (table[b, ATTRIBUTES] & CODEC_MASK) != 0
        batches += 1
        at = end
    return batches, OK
