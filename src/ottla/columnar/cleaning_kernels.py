"""Numba kernels of the cleaner: whole batches checked, records walked, keys put into the map, and what stays written out again.

They follow core/cleaning/plain.py to the byte, and only read inside the bounds they are given: any bytes end in a status, never in an
exception. They know nothing of compression (the lane hands them plain record bytes), of transactions (they get verdicts) or of files.
"""

import numpy as np

from ottla.columnar.cleaning_digests import crc32c, load_word
from ottla.columnar.cleaning_table import PREFETCH_ROWS, offset_of, prefetch, put, swapped
from ottla.columnar.kernels import Array, Int, _frame, _inline, _jit, _memcpy, _span
from ottla.core.cleaning.lane import Verdict
from ottla.core.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_MIN,
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

_FILTER, _FILTER_KEEP, _DROP = int(Verdict.FILTER), int(Verdict.FILTER_KEEP), int(Verdict.DROP)
_EMPTY, _KEEP, _KEEP_UNTIL_HORIZON = int(Verdict.EMPTY), int(Verdict.KEEP), int(Verdict.KEEP_UNTIL_HORIZON)
_KIND_BITS = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


@_inline
def _big_endian(buffer: Array, at: Int, size: Int) -> Int:
    """A signed big-endian number of at most 8 bytes; there must be 8 bytes to read."""
    return np.int64(swapped(load_word(buffer, at))) >> (64 - 8 * size)


@_inline
def _put_big_endian(out: Array, at: Int, number: Int, size: Int) -> None:
    for byte in range(size):
        out[at + byte] = np.uint8((number >> (8 * (size - 1 - byte))) & 0xFF)


@_inline
def _holds(numbers: Array, wanted: Int) -> Int:
    """Whether the rising `numbers` have this one."""
    low, high = 0, numbers.size
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < numbers.size and numbers[low] == wanted


@_jit
def survey(buffer: Array, marked: Array, table: Array) -> tuple[Int, Int, Int, Int]:
    """Fill `table` with the whole batches of `buffer`, checksums checked; it has room for as many as there can be.

    marked: rising last offsets of batches that are special, as control and transactional ones are.
    Returns (batches, where the last one ends, size of the partial batch behind or 0, status).
    """
    at = batches = next_bytes = 0
    while at + HEADER_BYTES <= buffer.size:
        length = _big_endian(buffer, at + 8, 4)
        base = _big_endian(buffer, at, 8)
        last_delta = _big_endian(buffer, at + 23, 4)
        count = _big_endian(buffer, at + 53, 8) << 32 >> 32
        if buffer[at + 16] != MAGIC:
            return batches, at, 0, BAD_MAGIC
        if length < BATCH_LENGTH_MIN or base < 0 or last_delta < 0 or count < 0 or base + last_delta < 0:
            return batches, at, 0, BAD_HEADER
        size = length + LENGTH_OVERHEAD_BYTES
        if size > buffer.size - at:
            next_bytes = size
            break
        if crc32c(buffer, at + ATTRIBUTES_AT, at + size) != _big_endian(buffer, at + CRC_AT, 4) & 0xFFFFFFFF:
            return batches, at, 0, BAD_CRC
        table[batches, AT], table[batches, SIZE] = at, size
        table[batches, START], table[batches, END] = at + HEADER_BYTES, at + size
        table[batches, BASE_OFFSET], table[batches, LAST_OFFSET] = base, base + last_delta
        table[batches, BASE_MS], table[batches, MAX_MS] = _big_endian(buffer, at + 27, 8), _big_endian(buffer, at + 35, 8)
        attributes = _big_endian(buffer, at + ATTRIBUTES_AT, 2)
        table[batches, COUNT], table[batches, ATTRIBUTES] = count, attributes
        table[batches, SPECIAL] = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0 or _holds(marked, base + last_delta)
        batches += 1
        at += size
    return batches, at, next_bytes, OK


@_inline
def _walk(plain: Array, table: Array, b: Int, records: Array, first: Int) -> Int:
    """Fill the record table from row `first` on with the records of one batch, which must fill its bytes exactly; a status."""
    at, end, base, base_ms, max_ms = table[b, START], table[b, END], table[b, BASE_OFFSET], table[b, BASE_MS], table[b, MAX_MS]
    log_append_time = (table[b, ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0
    if table[b, COUNT] > (end - at) // RECORD_BYTES_MIN:
        return BAD_COUNT
    last_delta = table[b, LAST_OFFSET] - base
    for row in range(first, first + table[b, COUNT]):
        delta_ms, offset_delta, rest_at, record_end = _frame(plain, at, end, last_delta)
        if rest_at < 0:
            return BAD_RECORD
        key_at, key_length, value_at = _span(plain, rest_at, record_end)
        if value_at < 0:
            return BAD_RECORD
        _, value_length, headers_at = _span(plain, value_at, record_end)
        if headers_at < 0:
            return BAD_RECORD
        time_ms = max_ms if log_append_time else base_ms + delta_ms
        if not log_append_time and ((base_ms ^ time_ms) & (delta_ms ^ time_ms)) < 0:
            return BAD_TIMESTAMP
        # Single numbers, not a row of the table: a view of a row would be counted up and down for every record.
        records[row, KEY_AT], records[row, KEY_LENGTH] = key_at, key_length
        records[row, OFFSET], records[row, TIME_MS] = base + offset_delta, time_ms
        records[row, REST_AT], records[row, RECORD_END] = rest_at, record_end
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
    words, firsts = keys
    entries, latest, passed, entries_max = state[0], state[1], state[2], state[3]
    is_full = False
    row = 0
    for b in range(table.shape[0]):
        if is_read[b]:
            for _ in range(table[b, COUNT]):
                prefetch(memory, firsts, row + PREFETCH_ROWS)
                offset = records[row, OFFSET]
                if records[row, KEY_LENGTH] >= 0 and offset >= from_offset:
                    if entries >= entries_max:
                        is_full = True
                        break
                    entries += put(memory, words, firsts, row, offset)
                    latest = offset
                passed += 1
                row += 1
        else:
            passed += table[b, COUNT]
        if is_full:
            break
        if table[b, LAST_OFFSET] >= from_offset:
            latest = table[b, LAST_OFFSET]
    state[0], state[1], state[2] = entries, latest, passed
    return is_full


@_inline
def _decide(
    records: Array, first: Int, count: Int, keeps_tombstones: Int, latest: Int, memory: Array, words: Array, firsts: Array
) -> tuple[Int, Int]:
    """Which of a batch's records stay: (how many, how many of them are tombstones)."""
    kept = tombstones = 0
    for row in range(first, first + count):
        prefetch(memory, firsts, row + PREFETCH_ROWS)
        offset, has_value = records[row, OFFSET], records[row, HAS_VALUE]
        stays = offset > latest
        if not stays and records[row, KEY_LENGTH] >= 0 and (has_value != 0 or keeps_tombstones):
            stays = offset >= offset_of(memory, words, firsts, row)
        records[row, KEPT] = stays
        if stays:
            kept += 1
            tombstones += 1 - has_value
    return kept, tombstones


@_inline
def _put_varint(out: Array, at: Int, number: Int) -> Int:
    """Write a zigzag varint; the position after it."""
    rest = np.uint64((number << 1) ^ (number >> 63))
    while rest > np.uint64(0x7F):
        out[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@_inline
def _varint_bytes(number: Int) -> Int:
    rest = np.uint64((number << 1) ^ (number >> 63)) >> np.uint64(7)
    size = 1
    while rest != 0:
        rest >>= np.uint64(7)
        size += 1
    return size


@_inline
def _seal(out: Array, at: Int, end: Int, attributes: Int, base_ms: Int, max_ms: Int, count: Int) -> None:
    """Finish a batch in out[at:end] whose header was copied from the one that it comes from."""
    _put_big_endian(out, at + 8, end - at - LENGTH_OVERHEAD_BYTES, 4)
    _put_big_endian(out, at + ATTRIBUTES_AT, attributes, 2)
    _put_big_endian(out, at + 27, base_ms, 8)
    _put_big_endian(out, at + 35, max_ms, 8)
    _put_big_endian(out, at + 57, count, 4)
    _put_big_endian(out, at + CRC_AT, crc32c(out, at + ATTRIBUTES_AT, end), 4)


@_inline
def _rebuild(
    source: Array, plain: Array, table: Array, b: Int, records: Array, horizon: tuple[Int, Int], out: Array, at: Int
) -> tuple[Int, Int, Int]:
    """Write a batch with those of its records that stay: (where it ends, largest timestamp, status).

    horizon: (whether there is a delete horizon, which it is).
    """
    _memcpy(out, at, source, table[b, AT], HEADER_BYTES)
    end, base, first = at + HEADER_BYTES, table[b, BASE_OFFSET], table[b, FIRST_ROW]
    base_ms, max_ms, kept = np.int64(horizon[1]), np.int64(NO_TIMESTAMP), 0
    for row in range(first, first + table[b, COUNT]):
        if records[row, KEPT] == 0:
            continue
        time_ms, rest_at = records[row, TIME_MS], records[row, REST_AT]
        if kept == 0 and not horizon[0]:
            base_ms = time_ms
        kept += 1
        delta_ms, offset_delta = time_ms - base_ms, records[row, OFFSET] - base
        if ((time_ms ^ base_ms) & (time_ms ^ delta_ms)) < 0:
            return end, max_ms, BAD_TIMESTAMP
        rest = records[row, RECORD_END] - rest_at
        end = _put_varint(out, end, 1 + _varint_bytes(delta_ms) + _varint_bytes(offset_delta) + rest)
        out[end] = 0
        end = _put_varint(out, end + 1, delta_ms)
        end = _put_varint(out, end, offset_delta)
        _memcpy(out, end, plain, rest_at, rest)
        end += rest
        max_ms = max(max_ms, time_ms)
    attributes = table[b, ATTRIBUTES] & (_KIND_BITS | CODEC_MASK) | (DELETE_HORIZON_BIT if horizon[0] else 0)
    _seal(out, at, end, attributes, base_ms, max_ms, kept)
    return end, max_ms, OK


@_inline
def _plan(table: Array, b: Int, verdict: Int, kept: Int, tombstones: Int) -> Int:
    """What to do with a batch of whose records so many stay, so many tombstones among them.

    _FILTER stands for: rebuilt, its delete horizon as it was; _KEEP_UNTIL_HORIZON for: rebuilt, with the delete horizon of today.
    """
    if verdict == _FILTER or verdict == _FILTER_KEEP:
        if kept == 0:
            return _DROP if verdict == _FILTER else _EMPTY
        if tombstones > 0 and (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) == 0:
            return _KEEP_UNTIL_HORIZON
        return _KEEP if kept == table[b, COUNT] else _FILTER
    return verdict


@_jit
def decide(
    table: Array, verdicts: Array, records: Array, keys: tuple[Array, Array], memory: Array, times: tuple[Int, Int], totals: Array
) -> None:
    """Set which records stay, and turn each verdict into what is to be done with the batch (see `_plan`).

    keys, memory: as for `put_keys`. times: (the map's latest offset, now). totals: (records looked at, kept), moved on.
    """
    words, firsts = keys
    latest, now_ms = times
    for b in range(table.shape[0]):
        verdict, count, first = verdicts[b], table[b, COUNT], table[b, FIRST_ROW]
        kept = 0
        if verdict == _FILTER or verdict == _FILTER_KEEP:
            keeps_tombstones = (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) == 0 or now_ms < table[b, BASE_MS]
            kept, tombstones = _decide(records, first, count, keeps_tombstones, latest, memory, words, firsts)
            totals[0] += count
            verdicts[b] = _plan(table, b, verdict, kept, tombstones)
        elif verdict == _KEEP_UNTIL_HORIZON:
            records[first : first + count, KEPT] = 1
            kept = count
        elif verdict == _KEEP:
            kept = count
        totals[1] += kept


@_jit
def write(
    source: Array, plain: Array, table: Array, verdicts: Array, records: Array, horizon_ms: Int, out: Array, written: Array
) -> tuple[Int, Int]:
    """Write what stays of the batches in `table` to `out`, which has room for it: (batches written, status).

    source: the bytes that AT points into; plain: those that the record table points into. verdicts, records: as `decide` left them.
    horizon_ms: the delete horizon of today. A rebuilt batch that has a codec is written with plain records.
    """
    batches = at = 0
    for b in range(table.shape[0]):
        verdict, max_ms, end = verdicts[b], table[b, MAX_MS], at
        if verdict == _DROP:
            continue
        if verdict == _KEEP:
            end = at + table[b, SIZE]
            _memcpy(out, at, source, table[b, AT], table[b, SIZE])
        elif verdict == _EMPTY:
            end = at + HEADER_BYTES
            _memcpy(out, at, source, table[b, AT], HEADER_BYTES)
            _seal(out, at, end, table[b, ATTRIBUTES] & _KIND_BITS, NO_TIMESTAMP, max_ms, 0)
        else:
            is_new = verdict == _KEEP_UNTIL_HORIZON
            horizon = (is_new or (table[b, ATTRIBUTES] & DELETE_HORIZON_BIT) != 0, horizon_ms if is_new else table[b, BASE_MS])
            end, max_ms, status = _rebuild(source, plain, table, b, records, horizon, out, at)
            if status != OK:
                return batches, status
        written[batches, WRITTEN_END], written[batches, WRITTEN_LAST_OFFSET] = end, table[b, LAST_OFFSET]
        written[batches, WRITTEN_MAX_MS] = max_ms
        written[batches, WRITTEN_PLAIN] = verdict != _KEEP and verdict != _EMPTY and (table[b, ATTRIBUTES] & CODEC_MASK) != 0
        batches += 1
        at = end
    return batches, OK
