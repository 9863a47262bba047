"""Numba kernels: record batches of format v2 as columns of numbers, with no Python object a record.

They only read inside the bounds they are given and answer with a status instead of an exception: any bytes end in a status. They know
nothing of Arrow, of compression or of checksums: `batches` hands them plain record bytes, `decoder` gives their output a type.
They accept what the plain codec (core/records) accepts, except timestamps that do not fit into microseconds.
Layout of a batch and of a record: KIP-98; varints are zigzag as in Protocol Buffers.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ottla.core.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_MIN,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
)

# Columns of the batch table: one row of 64-bit numbers a batch.
POSITION, END, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP_MS, MAX_TIMESTAMP_MS, RECORD_COUNT, ATTRIBUTES, CRC, PRODUCER_ID = range(10)
TABLE_COLUMNS = 10

# Where `parse_records` stopped, so that the next call goes on there.
CURSOR_BATCH, CURSOR_POSITION, CURSOR_RECORDS_LEFT = range(3)

# What `parse_records` adds up for the arrays that are made next.
KEY_BYTES, VALUE_BYTES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(5)

OK, BAD_MAGIC, BAD_LENGTH, BAD_NUMBER, BAD_RECORD, BAD_TIMESTAMP, BAD_HEADERS, BYTES_LEFT_OVER = range(8)
STATUS_TEXTS = (
    "",
    "a record batch of a format older than v2 (magic is not 2)",
    "a record batch shorter than its own header",
    "a record batch with an impossible offset or record count",
    "a record that does not fit into its batch",
    "a timestamp outside the range of a 64-bit count of microseconds",
    "record headers that do not fit into their record",
    "bytes left over after the last record of a batch",
)

_INT_BYTES_MAX = 5
_LONG_BYTES_MAX = 10
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_DELTA_MS_MAX = 2 * _TIMESTAMP_MS_MAX
_OFFSET_MAX = 2**63 - 2

Array = Any
# In machine code every number is a 64-bit one: Python's own types, and NumPy's, would say something else.
Int = Any
F = TypeVar("F", bound=Callable[..., Any])


def _jit(function: F) -> F:
    """Compile on first use and keep the machine code beside the source (or in NUMBA_CACHE_DIR)."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # No folder to keep it in can be written: an installation that is read-only still works, it compiles once a process.
        compiled = njit(nogil=True)(function)
    return cast(F, compiled)


def _inline(function: F) -> F:
    """A helper that is copied into its callers: passing an array to a real call costs two atomic counts a record."""
    return cast(F, njit(inline="always")(function))


def _memcpy_code(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    """memcpy(&target[target_at], &source[source_at], size): 10 to 25 times as fast as a loop over bytes."""
    signature = types.void(target, types.int64, source, types.int64, types.int64)
    copy: Any = cgutils.raw_memcpy

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        to, to_at, come_from, from_at, count = arguments
        to_data = context.make_array(sig.args[0])(context, builder, to).data
        from_data = context.make_array(sig.args[2])(context, builder, come_from).data
        copy(builder, builder.gep(to_data, [to_at]), builder.gep(from_data, [from_at]), count, 1)
        return context.get_dummy_value()

    return signature, generate


_memcpy: Any = intrinsic(_memcpy_code)


@_jit
def _big_endian(buffer: Array, at: Int, size: Int) -> Int:
    """A signed big-endian number of `size` bytes."""
    value = np.int64(buffer[at])
    if value >= 128:
        value -= 256
    for i in range(1, size):
        value = (value << 8) | np.int64(buffer[at + i])
    return value


@_jit
def scan_headers(buffer: Array, table: Array) -> tuple[Int, Int, Int]:
    """Walk the batch headers of a fetched buffer; a partial batch at the end, which brokers send, is left out.

    Fills as many rows of `table` as it has and counts on: a caller with too small a table calls again with a larger one.
    Returns (batches, next_offset, status); next_offset is -1 without a batch.
    """
    at = 0
    batches = 0
    next_offset = np.int64(-1)
    while at + HEADER_BYTES <= buffer.size:
        length = _big_endian(buffer, at + 8, 4)
        if length < BATCH_LENGTH_MIN:
            return batches, next_offset, BAD_LENGTH
        if buffer[at + 16] != MAGIC:
            return batches, next_offset, BAD_MAGIC
        end = at + LENGTH_OVERHEAD_BYTES + length
        if end > buffer.size:
            break
        base = _big_endian(buffer, at, 8)
        last_delta = _big_endian(buffer, at + 23, 4)
        record_count = _big_endian(buffer, at + 57, 4)
        if base < 0 or last_delta < 0 or base > _OFFSET_MAX - last_delta or record_count < 0:
            return batches, next_offset, BAD_NUMBER
        if batches < table.shape[0]:
            row = table[batches]
            row[POSITION] = at + HEADER_BYTES
            row[END] = end
            row[BASE_OFFSET] = base
            row[LAST_OFFSET_DELTA] = last_delta
            row[BASE_TIMESTAMP_MS] = _big_endian(buffer, at + 27, 8)
            row[MAX_TIMESTAMP_MS] = _big_endian(buffer, at + 35, 8)
            row[RECORD_COUNT] = record_count
            row[ATTRIBUTES] = _big_endian(buffer, at + ATTRIBUTES_AT, 2)
            row[CRC] = _big_endian(buffer, at + CRC_AT, 4) & 0xFFFFFFFF
            row[PRODUCER_ID] = _big_endian(buffer, at + 43, 8)
        next_offset = base + last_delta + 1
        batches += 1
        at = end
    return batches, next_offset, OK


@_inline
def _varint(buffer: Array, at: Int, end: Int, bytes_max: Int) -> tuple[Int, Int]:
    """A zigzag varint of at most `bytes_max` bytes: (value, position after it), the position -1 when it does not end before `end`."""
    if at < end and buffer[at] < 0x80:
        byte = np.int64(buffer[at])
        return (byte >> 1) ^ -(byte & 1), at + 1
    last = min(end, at + bytes_max)
    result = np.uint64(0)
    shift = np.uint64(0)
    position = np.int64(-1)
    while at < last:
        result |= (np.uint64(buffer[at]) & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        at += 1
        if buffer[at - 1] < 0x80:
            # The tenth byte has room for the 64th bit alone.
            if shift < np.uint64(70) or buffer[at - 1] < 2:
                position = at
            break
    return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), position


@_inline
def _span(buffer: Array, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A length, -1 for null, and as many bytes: (start, length, position after the bytes or -1)."""
    length, start = _varint(buffer, at, end, _INT_BYTES_MAX)
    if start < 0 or length < -1 or length > end - start:
        return start, length, np.int64(-1)
    return start, length, start + max(length, 0)


@_jit
def _walk_headers(buffer: Array, first: Int, count: Int, end: Int, totals: Array) -> Int:
    """Check a record's headers, which must end exactly at `end`; whether they do."""
    at = first
    for _ in range(count):
        _, key_length, at = _span(buffer, at, end)
        if at < 0 or key_length < 0:
            return False
        _, value_length, at = _span(buffer, at, end)
        if at < 0:
            return False
        totals[HEADER_KEY_BYTES] += key_length
        totals[HEADER_VALUE_BYTES] += max(value_length, 0)
    totals[HEADERS] += count
    return at == end


@_inline
def _frame(buffer: Array, at: Int, end: Int, last_offset_delta: Int) -> tuple[Int, Int, Int, Int]:
    """What comes before a record's key: (timestamp delta, offset delta, the key's position or -1, the record's end)."""
    length, body = _varint(buffer, at, end, _INT_BYTES_MAX)
    if body < 0 or length < 1 or length > end - body:
        return 0, 0, np.int64(-1), at
    record_end = body + length
    timestamp_delta, at = _varint(buffer, body + 1, record_end, _LONG_BYTES_MAX)
    if at < 0:
        return 0, 0, np.int64(-1), record_end
    offset_delta, at = _varint(buffer, at, record_end, _INT_BYTES_MAX)
    if offset_delta < 0 or offset_delta > last_offset_delta:
        return 0, 0, np.int64(-1), record_end
    return timestamp_delta, offset_delta, at, record_end


@_jit
def parse_records(
    buffer: Array, table: Array, bounds: tuple[Int, Int], cursor: Array, columns: tuple[Array, ...], spans: Array, totals: Array
) -> tuple[Int, Int]:
    """Parse records from `cursor` on until `spans` is full or the table ends, and keep those whose offset lies in `bounds` (first, end
    exclusive).

    `columns` are the arrays offset, timestamp (us) and timestamp type; a row of `spans` says where the key, value and headers lie in
    `buffer`: (position, length or -1) of key and of value, then position and count of the headers. `totals` and `cursor` are
    updated. Returns (rows, status).
    """
    offsets, timestamps_us, timestamp_types = columns
    row = key_bytes = value_bytes = 0
    totals[:] = 0
    for b in range(cursor[CURSOR_BATCH], table.shape[0]):
        at, left = cursor[CURSOR_POSITION], cursor[CURSOR_RECORDS_LEFT]
        if at < 0:
            at, left = table[b, POSITION], table[b, RECORD_COUNT]
        end, base_offset, last_delta = table[b, END], table[b, BASE_OFFSET], table[b, LAST_OFFSET_DELTA]
        log_append_time = (table[b, ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0
        base_ms = table[b, MAX_TIMESTAMP_MS] if log_append_time else table[b, BASE_TIMESTAMP_MS]
        if not -_TIMESTAMP_MS_MAX <= base_ms <= _TIMESTAMP_MS_MAX:
            return row, BAD_TIMESTAMP
        while left > 0 and row < spans.shape[0]:
            delta_ms, offset_delta, key, record_end = _frame(buffer, at, end, last_delta)
            if key < 0:
                return row, BAD_RECORD
            at = record_end
            left -= 1
            offset = base_offset + offset_delta
            if offset < bounds[0] or offset >= bounds[1]:
                continue
            key_at, key_length, value = _span(buffer, key, record_end)
            if value < 0:
                return row, BAD_RECORD
            value_at, value_length, headers = _span(buffer, value, record_end)
            if headers < 0:
                return row, BAD_RECORD
            header_count, headers_at = _varint(buffer, headers, record_end, _INT_BYTES_MAX)
            if headers_at < 0 or header_count < 0 or header_count > (record_end - headers_at) // 2:
                return row, BAD_HEADERS
            if headers_at != record_end and not _walk_headers(buffer, headers_at, header_count, record_end, totals):
                return row, BAD_HEADERS
            timestamp_ms = base_ms if log_append_time else base_ms + delta_ms
            # The delta is bounded too, so that the sum cannot wrap around into the range.
            if not (-_TIMESTAMP_MS_MAX <= timestamp_ms <= _TIMESTAMP_MS_MAX and -_DELTA_MS_MAX <= delta_ms <= _DELTA_MS_MAX):
                return row, BAD_TIMESTAMP
            offsets[row] = offset
            timestamps_us[row] = timestamp_ms * 1000
            timestamp_types[row] = log_append_time
            spans[row, 0] = key_at
            spans[row, 1] = key_length
            spans[row, 2] = value_at
            spans[row, 3] = value_length
            spans[row, 4] = headers_at
            spans[row, 5] = header_count
            key_bytes += max(key_length, 0)
            value_bytes += max(value_length, 0)
            row += 1
        if left > 0:
            cursor[CURSOR_BATCH], cursor[CURSOR_POSITION], cursor[CURSOR_RECORDS_LEFT] = b, at, left
            break
        if at != end:
            return row, BYTES_LEFT_OVER
        cursor[CURSOR_BATCH], cursor[CURSOR_POSITION] = b + 1, -1
    totals[KEY_BYTES], totals[VALUE_BYTES] = key_bytes, value_bytes
    return row, OK


@_jit
def gather_bytes(buffer: Array, spans: Array, first: Int, offsets: Array, data: Array, valid_bits: Array) -> Int:
    """Copy the byte strings of one span column (key: first = 0, value: first = 2) into an Arrow binary array's buffers.

    `valid_bits` comes in as zeros. Returns the number of nulls.
    """
    at = 0
    nulls = 0
    offsets[0] = 0
    for row in range(spans.shape[0]):
        length = spans[row, first + 1]
        if length >= 0:
            _memcpy(data, at, buffer, spans[row, first], length)
            at += length
            valid_bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
        offsets[row + 1] = at
    return nulls


@_jit
def gather_headers(buffer: Array, spans: Array, list_offsets: Array, list_valid_bits: Array, pairs: Array) -> Int:
    """Where every header's key and value lie, as spans (rows: key position, key length, value position, value length or -1).

    The spans were checked by `parse_records`. `list_valid_bits` comes in as zeros: a record without headers has a null list.
    Returns the number of null lists.
    """
    header = 0
    nulls = 0
    list_offsets[0] = 0
    for row in range(spans.shape[0]):
        at = spans[row, 4]
        count = spans[row, 5]
        if count:
            list_valid_bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
        for _ in range(count):
            pairs[header, 0], pairs[header, 1], at = _span(buffer, at, buffer.size)
            pairs[header, 2], pairs[header, 3], at = _span(buffer, at, buffer.size)
            header += 1
        list_offsets[row + 1] = header
    return nulls
