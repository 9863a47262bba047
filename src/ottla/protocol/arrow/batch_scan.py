"""The whole batches at the start of a buffer as a table, checksums checked: what the cleaner and a coordinator's loading begin with.

The kernel only reads inside the bounds of its arguments, and returns a status for any bytes, never an exception.
"""

import numpy as np

from ottla.protocol.arrow.primitives import Array, Int, address_of, big_endian, byte_at, crc32c, helper, jit
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from ottla.protocol.records.compression import Codec, decompress

Buffer = bytes | bytearray | memoryview

# Columns of the batch table. AT and SIZE are the batch in the buffer, START and END its plain record bytes, there or in another buffer.
# FIRST_ROW is its first record in the record table; SPECIAL says that its retention may have to be decided.
AT, SIZE, START, END, BASE_OFFSET, LAST_OFFSET, BASE_MS, MAX_MS, COUNT, ATTRIBUTES, SPECIAL, FIRST_ROW = range(12)
TABLE_COLUMNS = 12
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


@helper
def checked_sum(one: Int, other: Int) -> tuple[Int, Int]:
    """Two numbers added up, and whether the sum fits into 64 bits. Signed sums may not overflow: the compiler relies on that."""
    total = np.int64(np.uint64(one) + np.uint64(other))
    return total, ((one ^ total) & (other ^ total)) >= 0


@jit
def scan(buffer: Array, marked: Array, table: Array) -> tuple[Int, Int, Int, Int]:
    """Fill `table` with the whole batches of `buffer`, checksums checked; it has space for as many as there can be.

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
        last_offset, _ = checked_sum(base, last_delta)
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


def check(status: int) -> None:
    """Raise PeerError for a status that is not OK."""
    if status != OK:
        raise PeerError(STATUS_TEXTS[status])


def expand(section: memoryview, attributes: int) -> Buffer:
    """The plain bytes of a batch's records. Raises PeerError."""
    number = attributes & CODEC_MASK
    if number == Codec.NONE:
        return section
    try:
        codec = Codec(number)
    except ValueError as error:
        raise PeerError(f"a batch names codec {number}, which does not exist") from error
    return decompress(codec, section, output_bytes_max=DECOMPRESSED_BYTES_MAX)
