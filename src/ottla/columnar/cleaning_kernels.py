"""Numba kernels of the cleaner: whole batches checked, records walked, keys put into the map, and what stays written out again.

They follow core/cleaning/plain.py to the byte, and only read inside the bounds they are given: any bytes end in a status, never in an
exception. They know nothing of compression (the lane hands them plain record bytes), of transactions (they get verdicts) or of files.
"""

import numpy as np

from ottla.columnar.checksums import crc32c
from ottla.columnar.cleaning_digests import DIGEST_BYTES
from ottla.columnar.cleaning_memory import address_of, big_endian, byte_at, copy, fetch, helper, put_byte
from ottla.columnar.cleaning_table import offset_of, put
from ottla.columnar.kernels import Array, Int, _jit
from ottla.columnar.record_reading import head, span
from ottla.core.cleaning.lane import Verdict
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
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ottla.core.records.record import RECORD_BYTES_MIN

# Columns of the batch table. AT and SIZE are the batch in the buffer, START and END its plain record bytes, there or in another buffer.
# FIRST_ROW is its first record in the record table; SPECIAL says that a verdict may be needed.
AT, SIZE, START, END, BASE_OFFSET, LAST_OFFSET, BASE_MS, MAX_MS, COUNT, ATTRIBUTES, SPECIAL, FIRST_ROW = range(12)
TABLE_COLUMNS = 12
# Columns of the record table: one row a record that is looked at. REST_AT is where its key's length begins.
KEY_AT, KEY_LENGTH, OFFSET, TIME_MS, REST_AT, RECORD_END, HAS_VALUE, KEPT = range(8)
RECORD_COLUMNS = 8
# Columns of the table of written batches. WRITTEN_PLAIN: a rebuilt batch that must still be compressed.
WRITTEN_END, WRITTEN_LAST_OFFSET, WRITTEN_MAX_MS, WRITTEN_PLAIN = range(4)
WRITTEN_COLUMNS = 4

OK, BAD_MAGIC, BAD_HEADER, BAD_CRC, BAD_COUNT, BAD_RECORD, BAD_TIMESTAMP, BYTES_LEFT_OVER = range(8)
STATUS_TEXTS = (
    "",
    "a batch of a format that is not 2",
    "a batch header with an impossible length, offset or count",
    "a batch that does not match its checksum",
    "a batch that cannot hold the records that it claims",
    "a record that does not fit into its batch",
    "a record's timestamp that does not fit into 64 bits",
    "bytes that follow the last record of a batch",
)

HEAD_BYTES_MAX = 21
"""Most bytes of a record before its key's length: length, attributes, time and offset."""
HEAD_BYTES_MIN = 4
FETCH_ROWS = 16
"""So many keys ahead a slot is fetched: the map is larger than any cache, and waiting for memory would cost more than all the rest."""

_FILTER, _FILTER_KEEP, _DROP = int(Verdict.FILTER), int(Verdict.FILTER_KEEP), int(Verdict.DROP)
_EMPTY, _KEEP, _KEEP_UNTIL_HORIZON = int(Verdict.EMPTY), int(Verdict.KEEP), int(Verdict.KEEP_UNTIL_HORIZON)
_KIND_BITS = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


@helper
def _put_big_endian(at: Int, number: Int, size: Int) -> None:
    for byte in range(size):
        put_byte(at + byte, number >> (8 * (size - 1 - byte)))


@helper
def _sum(one: Int, other: Int) -> tuple[Int, Int]:
    """Two numbers added up, and whether the sum fits into 64 bits. Signed sums may not overflow: the compiler relies on that."""
    total = np.int64(np.uint64(one) + np.uint64(other))
    return total, ((one ^ total) & (other ^ total)) >= 0


@helper
def _difference(one: Int, other: Int) -> tuple[Int, Int]:
    """One number less another, and whether that fits into 64 bits."""
    rest = np.int64(np.uint64(one) - np.uint64(other))
    return rest, ((one ^ other) & (one ^ rest)) >= 0


@_jit
def survey(buffer: Array, marked: Array, table: Array) -> tuple[Int, Int, Int, Int]:
    """Fill `table` with the whole batches of `buffer`, checksums checked; it has room for as many as there can be.

    marked: rising last offsets of batches that are special, as control and transactional ones are.
    Returns (batches, where the last one ends, size of the partial batch behind or 0, status).
    """
    batches = next_bytes = 0
    start = address_of(buffer)
    at, end = start, start + buffer.size
    while at + HEADER_BYTES <= end:
        size = big_endian(at + 8, 4) + LENGTH_OVERHEAD_BYTES
        base, last_delta, count = big_endian(at, 8), big_endian(at + 23, 4), big_endian(at + 53, 8) << 32 >> 32
        if byte_at(at + 16) != MAGIC:
            return batches, at - start, 0, BAD_MAGIC
        last_offset, _ = _sum(base, last_delta)
        if size < HEADER_BYTES or base < 0 or last_delta < 0 or count < 0 or last_offset < 0:
            return batches, at - start, 0, BAD_HEADER
        if size > end - at:
            next_bytes = size
            break
        if crc32c(at + ATTRIBUTES_AT, at + size) != big_endian(at + CRC_AT, 4) & 0xFFFFFFFF:
            return batches, at - start, 0, BAD_CRC
        attributes, place = big_endian(at + ATTRIBUTES_AT, 2), np.searchsorted(marked, last_offset)
        is_marked = place < marked.size and marked[place] == last_offset
        table[batches, AT], table[batches, SIZE] = at - start, size
        table[batches, START], table[batches, END] = at - start + HEADER_BYTES, at - start + size
        table[batches, BASE_OFFSET], table[batches, LAST_OFFSET] = base, last_offset
        table[batches, BASE_MS], table[batches, MAX_MS] = big_endian(at + 27, 8), big_endian(at + 35, 8)
        table[batches, COUNT], table[batches, ATTRIBUTES] = count, attributes
        table[batches, SPECIAL] = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0 or is_marked
        batches += 1
        at += size
    return batches, at - start, next_bytes, OK


@_jit
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
        time_ms, fits = _sum(base_ms, delta_ms)
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


@_jit
def walk(plain: Array, table: Array, is_read: Array, records: Array) -> tuple[Int, Int, Int]:
    """Fill the record table with the records of the batches that are read: (records, batches done, status).

    plain: the bytes that START and END of `table` point into. records: room for the counts of all batches that are read.
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


@_jit
def put_keys(table: Array, is_read: Array, from_offset: Int, records: Array, keys: tuple[Array, Array], memory: Array, state: Array) -> Int:
    """Put the keys of the batches that are read into the map; whether it is full: then a key was not put, and nothing behind it.

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
def _plan(verdict: Int, count: Int, has_horizon: Int, kept: Int, tombstones: Int) -> Int:
    """What to do with a batch of so many records of which so many stay, so many tombstones among them.

    _FILTER stands for: rebuilt, its delete horizon as it was; _KEEP_UNTIL_HORIZON for: rebuilt, with the delete horizon of today.
    """
    if verdict in (_FILTER, _FILTER_KEEP):
        if kept == 0:
            return _DROP if verdict == _FILTER else _EMPTY
        if tombstones > 0 and not has_horizon:
            return _KEEP_UNTIL_HORIZON
        return _KEEP if kept == count else _FILTER
    return verdict


@_jit
def decide(
    table: Array, verdicts: Array, records: Array, keys: tuple[Array, Array], memory: Array, times: tuple[Int, Int], totals: Array
) -> None:
    """Set which records stay, and turn each verdict into what is to be done with the batch (see `_plan`).

    keys, memory: as for `put_keys`. times: (the map's latest offset, now). totals: (records looked at, kept), moved on.
    """
    digests, firsts = keys
    digests_at, memory_at, slots, rows = address_of(digests), address_of(memory), memory.shape[0], records.shape[0]
    latest, now_ms = times
    for b in range(table.shape[0]):
        verdict, count, first = verdicts[b], table[b, COUNT], table[b, FIRST_ROW]
        kept = count if verdict in (_KEEP, _KEEP_UNTIL_HORIZON) else 0
        if verdict == _KEEP_UNTIL_HORIZON:
            records[first : first + count, KEPT] = 1
        if verdict in (_FILTER, _FILTER_KEEP):
            has_horizon = (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) != 0
            keeps_tombstones = not has_horizon or now_ms < table[b, BASE_MS]
            tombstones = 0
            for row in range(first, first + count):
                if row + FETCH_ROWS < rows:
                    fetch(memory_at + firsts[row + FETCH_ROWS] * SLOT_BYTES)
                offset, has_value = records[row, OFFSET], records[row, HAS_VALUE] != 0
                stays = offset > latest
                if not stays and records[row, KEY_LENGTH] >= 0 and (has_value or keeps_tombstones):
                    stays = offset >= offset_of(memory_at, slots, digests_at + row * DIGEST_BYTES, firsts[row])
                records[row, KEPT] = stays
                kept += stays
                tombstones += stays and not has_value
            verdicts[b] = _plan(verdict, count, has_horizon, kept, tombstones)
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


@_jit
def _rebuild(plain: Array, table: Array, b: Int, records: Array, horizon: tuple[Int, Int], at: Int) -> tuple[Int, Int, Int]:
    """Finish a batch, whose header is at an address already, with those of its records that stay: (its end, largest timestamp, status).

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


@_jit
def write(
    source: Array, plain: Array, table: Array, verdicts: Array, records: Array, horizon_ms: Int, out: Array, written: Array
) -> tuple[Int, Int]:
    """Write what stays of the batches in `table` to `out`, which has room for it: (batches written, status).

    source: the bytes that AT points into; plain: those that the record table points into. verdicts, records: as `decide` left them.
    horizon_ms: the delete horizon of today. A rebuilt batch that has a codec is written with plain records.
    """
    source_at, out_at = address_of(source), address_of(out)
    at, batches = out_at, 0
    for b in range(table.shape[0]):
        verdict, max_ms = verdicts[b], table[b, MAX_MS]
        if verdict == _DROP:
            continue
        is_rebuilt = verdict not in (_KEEP, _EMPTY)
        kept_bytes = table[b, SIZE] if verdict == _KEEP else HEADER_BYTES
        copy(at, source_at + table[b, AT], kept_bytes)
        end = at + kept_bytes
        if verdict == _EMPTY:
            _seal(at, end, table[b, ATTRIBUTES] & _KIND_BITS, NO_TIMESTAMP, max_ms, 0)
        if is_rebuilt:
            is_new = verdict == _KEEP_UNTIL_HORIZON
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
