"""Numba kernels for batch headers: walked into a table, and the action for each batch chosen.

They only read inside the bounds of their arguments and return a status instead of raising: any bytes give a status. They
read no record, and need neither Arrow nor codecs. They take addresses: an array as an argument costs atomic counts.
Layout of a batch: KIP-98.
"""

from ottla.protocol.arrow.primitives.compilation import Int, jit
from ottla.protocol.arrow.primitives.memory import WORD_BYTES, big_endian, byte_at, load, put_byte, store
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
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
