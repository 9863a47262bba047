"""Numba kernels: batch headers into a table, and plain record bytes into the buffers of Arrow columns, with no Python object a record.

They only read inside the bounds of their arguments and return a status instead of raising: any bytes give a status. They need
neither Arrow nor codecs: `batches` passes plain record bytes, `decoder` makes space and gives their output a type.
They accept what the plain codec (protocol/records) takes, except timestamps that do not fit into microseconds. Arguments are addresses: an
array as an argument costs atomic counts.
"""

import numpy as np

from ottla.protocol.arrow.primitives import (
    WORD_BYTES,
    Int,
    address_of,
    big_endian,
    byte_at,
    copy,
    crc32c,
    helper,
    jit,
    load,
    put_byte,
    put_half,
    record,
    span,
    store,
)
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    RECORD_BYTES_MIN,
)

PRODUCER_ID_AT = 43

# Columns of the batch table: one row of 64-bit numbers a batch; POSITION is where the records begin.
POSITION, END, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP_MS, MAX_TIMESTAMP_MS, RECORD_COUNT, ATTRIBUTES, CRC, PRODUCER_ID = range(10)
TABLE_COLUMNS = 10

# The action for a batch: skip it, read its records, or only compare its checksum.
SKIP, READ, CHECK = range(3)

OK, BAD_MAGIC, BAD_LENGTH, BAD_NUMBER, BAD_RECORD, BAD_TIMESTAMP, BAD_HEADERS, BYTES_LEFT_OVER, BAD_COUNT, BAD_CRC = range(10)
STATUS_TEXTS = (
    "",
    "a record batch of a format older than v2 (magic is not 2)",
    "a record batch shorter than its own header",
    "a record batch with an impossible offset or record count",
    "a record that does not fit into its batch",
    "a timestamp outside the range of a 64-bit count of microseconds",
    "record headers that do not fit into their record",
    "bytes left over after the last record of a batch",
    "a record batch with a record count that cannot fit",
    "a record batch whose CRC-32C is wrong",
)

_OFFSET_MAX = 2**63 - 2

FULL = -1
"""There is no space for one more record: take the rows out and call again."""

# Where a call stopped, so that the next one continues there (CURSOR_POSITION 0: at the start of a batch), and the columns' sizes by then.
CURSOR_BATCH, CURSOR_POSITION, CURSOR_LEFT, ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS = range(8)
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(8, 11)
STATE_WORDS = 11

# Where the columns are: addresses, 0 for a column that is not wanted; KEYS and VALUES are four words each: offsets (int32), data, bits of
# validity, and the space for data, which is endless for a column that is not wanted.
KEYS, VALUES, OFFSETS, TIMESTAMPS, TIMESTAMP_TYPES, HEADER_SPANS, ROWS_MAX = 0, 4, 8, 9, 10, 11, 12
OUT_WORDS = 13
BINARY_WORDS, BINARY_SPACE = 4, 3
ENDLESS = 1 << 62
HEADER_SPAN_WORDS = 2
"""Of each record: the address of its first header, and how many there are."""

SLACK_BYTES = 32
"""Space behind the data of byte strings: short ones are copied in whole steps."""

BITS_ALL_VALID = 0xFF
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_DELTA_MS_MAX = 2 * _TIMESTAMP_MS_MAX
_STEPPED_BYTES_MAX = 256
_HALF_BYTES = 4


@jit
def scan_headers(buffer_at: Int, size: Int, table_at: Int, rows_max: Int) -> tuple[Int, Int]:
    """Walk the batch headers of a fetched buffer of `size` bytes; a partial batch at the end, which brokers send, is left out.

    Fills as many rows of the table (int64, TABLE_COLUMNS a row) as it has and counts on: a caller with too small a table calls again with
    a larger one. Returns (batches, status).
    """
    at, end = buffer_at, buffer_at + size
    batches = 0
    while at + HEADER_BYTES <= end:
        length = big_endian(at + 8, 4)
        if length < BATCH_LENGTH_MIN:
            return batches, BAD_LENGTH
        if byte_at(at + 16) != MAGIC:
            return batches, BAD_MAGIC
        batch_end = at + LENGTH_OVERHEAD_BYTES + length
        if batch_end > end:
            break
        base, last_delta, record_count = big_endian(at, 8), big_endian(at + 23, 4), big_endian(at + 53, 8) << 32 >> 32
        if base < 0 or last_delta < 0 or base > _OFFSET_MAX - last_delta or record_count < 0:
            return batches, BAD_NUMBER
        if batches < rows_max:
            row_at = table_at + batches * (TABLE_COLUMNS * WORD_BYTES)
            store(row_at, POSITION, at + HEADER_BYTES - buffer_at)
            store(row_at, END, batch_end - buffer_at)
            store(row_at, BASE_OFFSET, base)
            store(row_at, LAST_OFFSET_DELTA, last_delta)
            store(row_at, BASE_TIMESTAMP_MS, big_endian(at + 27, 8))
            store(row_at, MAX_TIMESTAMP_MS, big_endian(at + 35, 8))
            store(row_at, RECORD_COUNT, record_count)
            store(row_at, ATTRIBUTES, big_endian(at + ATTRIBUTES_AT, 2))
            store(row_at, CRC, big_endian(at + CRC_AT, 4) & 0xFFFFFFFF)
            store(row_at, PRODUCER_ID, big_endian(at + PRODUCER_ID_AT, 8))
        batches += 1
        at = batch_end
    return batches, OK


@jit
def choose(table_at: Int, batches: Int, first_offset: Int, end_offset: Int, tasks_at: Int) -> Int:
    """Write the action for each batch (SKIP ..., a byte each), when the offsets from the first to before the end are
    wanted; whether one of those to read is compressed."""
    is_compressed = False
    for b in range(batches):
        row_at = table_at + b * (TABLE_COLUMNS * WORD_BYTES)
        base, attributes = load(row_at, BASE_OFFSET), load(row_at, ATTRIBUTES)
        task = SKIP
        if base < end_offset and base + load(row_at, LAST_OFFSET_DELTA) >= first_offset:
            task = CHECK if attributes & CONTROL_BIT else READ
            is_compressed = is_compressed or (task == READ and (attributes & CODEC_MASK) != 0)
        put_byte(tasks_at + b, task)
    return is_compressed


@helper
def put_bytes(to: Int, come_from: Int, length: Int, source_end: Int) -> None:
    """Copy a byte string to where SLACK_BYTES follow. A call of memcpy costs as much as copying a hundred bytes."""
    if length <= _STEPPED_BYTES_MAX and come_from + length + SLACK_BYTES <= source_end:
        done = np.int64(0)
        while done < length:
            copy(to + done, come_from + done, SLACK_BYTES)
            done += SLACK_BYTES
    else:
        copy(to, come_from, length)


@helper
def put_null(bits_at: Int, row: Int, rows_max: Int, state_at: Int, nulls: Int) -> None:
    """Mark a row as null, and count it as word `nulls` of the state. Without nulls no bits are needed, so they are made with the first."""
    count = load(state_at, nulls)
    if count == 0:
        for byte in range((rows_max + 7) >> 3):
            put_byte(bits_at + byte, BITS_ALL_VALID)
    at = bits_at + (row >> 3)
    put_byte(at, byte_at(at) & ~(1 << (row & 7)))
    store(state_at, nulls, count + 1)


@helper
def _crc_matches(source_at: Int, row_at: Int) -> Int:
    """Whether a batch, a row of the batch table whose positions count from `source_at`, has the checksum that it claims."""
    start = source_at + load(row_at, POSITION) - (HEADER_BYTES - ATTRIBUTES_AT)
    return crc32c(start, source_at + load(row_at, END)) == load(row_at, CRC)


@jit
def sound_batches(source_at: Int, table_at: Int, tasks_at: Int, batches: Int) -> Int:
    """How many batches have the right checksum, up to the first that has not; those to skip are not looked at."""
    for b in range(batches):
        if byte_at(tasks_at + b) != SKIP and not _crc_matches(source_at, table_at + b * (TABLE_COLUMNS * WORD_BYTES)):
            return b
    return batches


@helper
def begin_batch(work: tuple[Int, ...], b: Int, state_at: Int) -> tuple[Int, Int, Int, Int]:
    """Where to continue in a batch: (status, address of the next record, how many are left, the batch's end). work: as for `decode`."""
    source_at, table_at, tasks_at, is_checked = work
    row_at = table_at + b * (TABLE_COLUMNS * WORD_BYTES)
    position, left = load(state_at, CURSOR_POSITION), load(state_at, CURSOR_LEFT)
    end = source_at + load(row_at, END)
    status = np.int64(OK)
    if position == 0:
        position, left, task = load(row_at, POSITION), load(row_at, RECORD_COUNT), byte_at(tasks_at + b)
        if task != SKIP and not is_checked and not _crc_matches(source_at, row_at):
            status = np.int64(BAD_CRC)
        elif task == READ and left > (end - source_at - position) // RECORD_BYTES_MIN:
            # Of those that are not read, the bytes may be compressed.
            status = np.int64(BAD_COUNT)
    return status, source_at + position, left, end


@helper
def end_batch(status: Int, at: Int, left: Int, end: Int, source_at: Int, state_at: Int) -> Int:
    """Leave a batch, or stop inside it: its status."""
    if status == FULL:
        store(state_at, CURSOR_POSITION, at - source_at)
        store(state_at, CURSOR_LEFT, left)
    elif status == OK:
        store(state_at, CURSOR_POSITION, 0)
        if at != end:
            return np.int64(BYTES_LEFT_OVER)
    return status


@helper
def times(row_at: Int) -> tuple[Int, Int]:
    """The times of a batch's records: (milliseconds that they count from, whether they all are just that: LogAppendTime)."""
    is_log_append_time = (load(row_at, ATTRIBUTES) & LOG_APPEND_TIME_BIT) != 0
    return load(row_at, MAX_TIMESTAMP_MS) if is_log_append_time else load(row_at, BASE_TIMESTAMP_MS), is_log_append_time


@helper
def time_us(base_ms: Int, delta_ms: Int) -> tuple[Int, Int]:
    """A record's time in microseconds, and whether it fits into 64 bits."""
    # Each is bounded, so that the sum cannot wrap around into the range.
    fits = -_TIMESTAMP_MS_MAX <= base_ms <= _TIMESTAMP_MS_MAX and -_DELTA_MS_MAX <= delta_ms <= _DELTA_MS_MAX
    time_ms = base_ms + delta_ms if fits else np.int64(0)
    return time_ms * 1000, fits and -_TIMESTAMP_MS_MAX <= time_ms <= _TIMESTAMP_MS_MAX


@helper
def _put_binary(
    column: tuple[Int, ...], row: Int, used: Int, field: tuple[Int, Int], source_end: Int, rows_max: Int, state: tuple[Int, Int]
) -> Int:
    """Write a byte string (address, length or -1) as a row; the bytes used by then. column: (offsets, data, bits, space)."""
    offsets, data, bits, _ = column
    at, length = field
    if row == 0:
        put_half(offsets, 0)
    if length >= 0:
        put_bytes(data + used, at, length, source_end)
        used += length
    else:
        put_null(bits, row, rows_max, state[0], state[1])
    put_half(offsets + _HALF_BYTES * (row + 1), used)
    return used


@helper
def _binary_column(out_at: Int, first: Int) -> tuple[Int, Int, Int, Int]:
    return load(out_at, first), load(out_at, first + 1), load(out_at, first + 2), load(out_at, first + 3)


@jit
def _decode_batch(work: tuple[Int, ...], b: Int, bounds: tuple[Int, Int], out_at: Int, state_at: Int) -> Int:
    status, at, left, end = begin_batch(work, b, state_at)
    if status != OK or byte_at(work[2] + b) != READ:
        return status
    row_at = work[1] + b * (TABLE_COLUMNS * WORD_BYTES)
    base_offset, last_delta, (base_ms, is_log_append_time) = load(row_at, BASE_OFFSET), load(row_at, LAST_OFFSET_DELTA), times(row_at)
    keys, values = _binary_column(out_at, KEYS), _binary_column(out_at, VALUES)
    offsets, timestamps, types, spans = (
        load(out_at, OFFSETS),
        load(out_at, TIMESTAMPS),
        load(out_at, TIMESTAMP_TYPES),
        load(out_at, HEADER_SPANS),
    )
    row, rows_max, key_bytes, value_bytes = (
        load(state_at, ROWS),
        load(out_at, ROWS_MAX),
        load(state_at, KEY_BYTES),
        load(state_at, VALUE_BYTES),
    )
    while left > 0:
        delta_ms, offset_delta, key, value, headers, record_end = record(at, end, last_delta)
        if record_end < 0:
            status = np.int64(BAD_RECORD)
            break
        if bounds[0] <= base_offset + offset_delta < bounds[1]:
            timestamp_us, fits = time_us(base_ms, np.int64(0) if is_log_append_time else delta_ms)
            if not fits:
                status = np.int64(BAD_TIMESTAMP)
                break
            if row >= rows_max or key_bytes + key[1] > keys[3] or value_bytes + value[1] > values[3]:
                status = np.int64(FULL)
                break
            if keys[0] != 0:
                key_bytes = _put_binary(keys, row, key_bytes, key, end, rows_max, (state_at, KEY_NULLS))
            if values[0] != 0:
                value_bytes = _put_binary(values, row, value_bytes, value, end, rows_max, (state_at, VALUE_NULLS))
            if offsets != 0:
                store(offsets, row, base_offset + offset_delta)
            if timestamps != 0:
                store(timestamps, row, timestamp_us)
            if types != 0:
                put_half(types + _HALF_BYTES * row, np.int64(is_log_append_time))
            if spans != 0:
                _note_headers(spans, row, headers, state_at)
            row += 1
        at = record_end
        left -= 1
    store(state_at, ROWS, row)
    store(state_at, KEY_BYTES, key_bytes)
    store(state_at, VALUE_BYTES, value_bytes)
    return end_batch(status, at, left, end, work[0], state_at)


@helper
def _note_headers(spans: Int, row: Int, headers: tuple[Int, Int, Int, Int], state_at: Int) -> None:
    store(spans, 2 * row, headers[0])
    store(spans, 2 * row + 1, headers[1])
    store(state_at, HEADERS, load(state_at, HEADERS) + headers[1])
    store(state_at, HEADER_KEY_BYTES, load(state_at, HEADER_KEY_BYTES) + headers[2])
    store(state_at, HEADER_VALUE_BYTES, load(state_at, HEADER_VALUE_BYTES) + headers[3])


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
    """Read records from the cursor on, and write those with first_offset <= offset < end_offset behind the rows that the columns hold.

    `work`: source_at, where the plain bytes are that POSITION and END of the table count from; tasks_at, a byte for each batch
    (SKIP ...); is_checked, whether the checksums were compared already. out_at, state_at: the words named above. Returns FULL, OK when
    all batches are done, or the error of the batch at the cursor.
    """
    work = (source_at, table_at, tasks_at, is_checked)
    for b in range(load(state_at, CURSOR_BATCH), batches):
        store(state_at, CURSOR_BATCH, b)
        status = _decode_batch(work, b, (first_offset, end_offset), out_at, state_at)
        if status != OK:
            return status
    store(state_at, CURSOR_BATCH, batches)
    return np.int64(OK)


@jit
def gather_headers(
    spans_at: Int,
    rows: Int,
    lists: Int,
    list_bits: Int,
    keys: Int,
    key_data: Int,
    values: Int,
    value_data: Int,
    value_bits: Int,
    count: Int,
) -> tuple[Int, Int]:
    """Copy the headers that `decode` found sound into Arrow buffers: (null lists, null values). A record without headers has a null list.

    lists, keys, values: their offsets (int32); there are `count` headers in all.
    """
    state = np.zeros(2, np.int64)
    state_at = address_of(state)
    number = key_bytes = value_bytes = 0
    for first in (lists, keys, values):
        put_half(first, 0)
    for row in range(rows):
        at, left = load(spans_at, HEADER_SPAN_WORDS * row), load(spans_at, HEADER_SPAN_WORDS * row + 1)
        if left == 0:
            put_null(list_bits, row, rows, state_at, 0)
        for _ in range(left):
            start, length, at = span(at, np.int64(ENDLESS))
            copy(key_data + key_bytes, start, length)
            key_bytes += length
            start, length, at = span(at, np.int64(ENDLESS))
            if length < 0:
                put_null(value_bits, number, count, state_at, 1)
            copy(value_data + value_bytes, start, max(length, 0))
            value_bytes += max(length, 0)
            number += 1
            put_half(keys + _HALF_BYTES * number, key_bytes)
            put_half(values + _HALF_BYTES * number, value_bytes)
        put_half(lists + _HALF_BYTES * (row + 1), number)
    return state[0], state[1]
