"""Numba kernels of the cleaner: whole batches checked, records walked, keys put into the offset map, and what is kept written out.

Their output equals that of log/cleaner/backend.py to the byte, and so does the map: the same memory and the same probing, three 64-bit
words a slot (the digest's two, and the offset, big-endian). Callers decide when it is full, and what an offset means. Arguments are
addresses: `memory_at` of the map's memory, `digest_at` of a digest. Kernels only read inside the bounds of their arguments, and return a
status for any bytes, never an exception. Compression, transactions and files are the callers'.

MD5 (RFC 1321) is one long chain of steps that wait for each other, so sixteen keys go through it side by side, one in each element of a
vector: that takes hardly longer than a single one. It reads little-endian words, as all processors do that Numba writes code for.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ottla.log.cleaner.backend import LAST_WINDOW, NO_OFFSET, SLOT_BYTES, BatchRetention
from ottla.protocol.arrow.batch_scan import (
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
from ottla.protocol.arrow.primitives import (
    Array,
    Int,
    address_of,
    byte_at,
    copy,
    crc32c,
    fetch,
    head,
    helper,
    jit,
    put_byte,
    put_word,
    span,
    swapped,
    word_at,
)
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
)

KEYS_AT_ONCE = 16
BLOCK_BYTES = 64
DIGEST_BYTES = 16
_LENGTH_BYTES = 8
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_ADDENDS = [int(abs(math.sin(step + 1)) * 2**32) for step in range(64)]
_ROTATIONS = [7, 12, 17, 22] * 4 + [5, 9, 14, 20] * 4 + [4, 11, 16, 23] * 4 + [6, 10, 15, 21] * 4


def _round(builder: Any, step: int, b: Any, c: Any, d: Any) -> tuple[Any, int]:
    """The mixing function of a step and the number of the word that it adds."""
    if step < 16:
        return builder.xor(d, builder.and_(b, builder.xor(c, d))), step
    if step < 32:
        return builder.xor(c, builder.and_(d, builder.xor(b, c))), (5 * step + 1) % 16
    if step < 48:
        return builder.xor(builder.xor(b, c), d), (3 * step + 5) % 16
    return builder.xor(c, builder.or_(b, builder.not_(d))), 7 * step % 16


def _md5_block_code(typing_context: Any, state_at: Any, words_at: Any) -> Any:
    """Mix one block of every key into the state: addresses of the state (uint32, 4 rows of vectors) and the blocks (16 rows of vectors)."""
    vector = ir.VectorType(ir.IntType(32), KEYS_AT_ONCE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state_at, words_at = (builder.inttoptr(address, vector.as_pointer()) for address in arguments)

        def row(first: Any, number: int) -> Any:
            return builder.gep(first, [ir.Constant(ir.IntType(64), number)])

        def splat(number: int) -> Any:
            return ir.Constant(vector, [number] * KEYS_AT_ONCE)

        before = [builder.load(row(state_at, number), align=4) for number in range(4)]
        block = [builder.load(row(words_at, number), align=4) for number in range(16)]
        a, b, c, d = before
        for step in range(64):
            mixed, word = _round(builder, step, b, c, d)
            total = builder.add(builder.add(a, builder.add(block[word], splat(_ADDENDS[step]))), mixed)
            left, right = splat(_ROTATIONS[step]), splat(32 - _ROTATIONS[step])
            rotated = builder.or_(builder.shl(total, left), builder.lshr(total, right))
            a, b, c, d = d, builder.add(b, rotated), b, c
        for number, (old, new) in enumerate(zip(before, (a, b, c, d), strict=True)):
            builder.store(builder.add(old, new), row(state_at, number), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


_md5_block: Any = intrinsic(_md5_block_code)


@helper
def _padded_bytes(length: Int) -> Int:
    """MD5's padding of a key: a byte and the length follow the key, and the last block is filled."""
    return max(length, 0) + 1 + _LENGTH_BYTES


@helper
def _fill_block(row_at: Int, key_at: Int, length: Int, block_at: Int) -> None:
    """Write the 64 bytes from `block_at` on of a key as MD5 pads it: the key, a byte 0x80, zeros, the length in bits."""
    for word in range(0, BLOCK_BYTES, 8):
        put_word(row_at + word, np.uint64(0))
    copy(row_at, key_at + block_at, min(max(length - block_at, 0), BLOCK_BYTES))
    if block_at <= length < block_at + BLOCK_BYTES:
        put_byte(row_at + length - block_at, 0x80)
    if block_at < length + 1 + _LENGTH_BYTES <= block_at + BLOCK_BYTES:
        put_word(row_at + BLOCK_BYTES - _LENGTH_BYTES, np.uint64(length) << np.uint64(3))


@jit
def md5_keys(buffer: Array, spans: Array, digests: Array) -> None:
    """The MD5 of each byte range of `buffer`: `spans` has (position, length) in its first two columns, checked by the caller; a length
    of -1 counts as 0. Fills `digests` (uint32, one row of 4 little-endian words a range)."""
    buffer_at = address_of(buffer)
    row = np.zeros(16, np.uint32)
    words = np.zeros((16, KEYS_AT_ONCE), np.uint32)
    state = np.empty((4, KEYS_AT_ONCE), np.uint32)
    row_at, state_at, words_at = address_of(row), address_of(state), address_of(words)
    for first in range(0, spans.shape[0], KEYS_AT_ONCE):
        keys = min(KEYS_AT_ONCE, spans.shape[0] - first)
        longest = np.int64(0)
        for key in range(keys):
            longest = max(longest, spans[first + key, 1])
        for number in range(4):
            state[number, :] = _START[number]
        for block_at in range(0, _padded_bytes(longest), BLOCK_BYTES):
            for key in range(keys):
                _fill_block(row_at, buffer_at + spans[first + key, 0], max(spans[first + key, 1], 0), block_at)
                for word in range(16):
                    words[word, key] = row[word]
            _md5_block(state_at, words_at)
            for key in range(keys):
                # Shorter keys continue with zeros, and their result is not used again.
                if block_at < _padded_bytes(spans[first + key, 1]) <= block_at + BLOCK_BYTES:
                    for number in range(4):
                        digests[first + key, number] = state[number, key]


_INT32_MIN = -(1 << 31)


@helper
def _slot_of(number: Int, slots: Int) -> Int:
    """As `offset_map.probe`: the absolute value of a signed number of 32 bits, modulo the slots; the smallest number has none."""
    return np.int64(0) if number == _INT32_MIN else np.int64(np.uint64(abs(number)) % np.uint64(slots))


@jit
def first_slots(digests: Array, slots: Int, found: Array) -> None:
    """The first slot to probe for each key. digests: uint64, two columns."""
    for row in range(digests.shape[0]):
        found[row] = _slot_of(np.int64(swapped(digests[row, 0])) >> 32, slots)


@helper
def _next_slot(digest_at: Int, attempt: Int, slots: Int) -> Int:
    """The slot to probe in a further attempt: other windows of the digest, and at last one slot after the other."""
    number = np.int64(0)
    for byte in range(4):
        number = number << 8 | byte_at(digest_at + min(attempt, LAST_WINDOW) + byte)
    number += max(0, attempt - LAST_WINDOW) - _INT32_MIN
    return _slot_of((number & 0xFFFFFFFF) + _INT32_MIN, slots)


@helper
def _is_of(slot_at: Int, digest_at: Int) -> Int:
    return word_at(slot_at) == word_at(digest_at) and word_at(slot_at + 8) == word_at(digest_at + 8)


@helper
def _find(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int) -> Int:
    """The address of the slot that holds the digest, or of the free one for it. There always is one: the map is never completely full."""
    attempt = 0
    slot_at = memory_at + first_slot * SLOT_BYTES
    while not _is_of(slot_at, digest_at):
        if word_at(slot_at) | word_at(slot_at + 8) | word_at(slot_at + 16) == np.uint64(0):
            break
        attempt += 1
        slot_at = memory_at + _next_slot(digest_at, attempt, slots) * SLOT_BYTES
    return slot_at


@helper
def offset_of(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int) -> Int:
    """The latest offset of a key, NO_OFFSET when the map does not have it."""
    slot_at = _find(memory_at, slots, digest_at, first_slot)
    return np.int64(swapped(word_at(slot_at + 16))) if _is_of(slot_at, digest_at) else np.int64(NO_OFFSET)


@helper
def put(memory_at: Int, slots: Int, digest_at: Int, first_slot: Int, offset: Int) -> Int:
    """Set the offset of a key; 1 when that took a free slot, otherwise 0."""
    slot_at = _find(memory_at, slots, digest_at, first_slot)
    is_new = not _is_of(slot_at, digest_at)
    if is_new:
        put_word(slot_at, word_at(digest_at))
        put_word(slot_at + 8, word_at(digest_at + 8))
    put_word(slot_at + 16, swapped(np.uint64(offset)))
    return np.int64(is_new)


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
