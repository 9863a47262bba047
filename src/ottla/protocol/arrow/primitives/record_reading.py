"""How compiled code reads records, by address: varints, lengths with their bytes, and what comes before a record's key (KIP-98).

It only reads inside the bounds of its arguments. An address of -1 means damaged bytes: any bytes give values or that. It
accepts what the plain codec (protocol/records/record.py) accepts.
"""

import numpy as np

from ottla.protocol.arrow.primitives.compilation import Int, helper, jit
from ottla.protocol.arrow.primitives.memory import byte_at

INT_BYTES_MAX = 5
LONG_BYTES_MAX = 10


@jit
def _long_varint(at: Int, end: Int, bytes_max: Int) -> tuple[Int, Int]:
    """The bits of a varint of any length as they are stored: (bits, address after them or -1)."""
    last = min(end, at + bytes_max)
    bits, shift, after = np.uint64(0), np.uint64(0), np.int64(-1)
    while at < last:
        byte = byte_at(at)
        bits |= np.uint64(byte & 0x7F) << shift
        shift += np.uint64(7)
        at += 1
        if byte < 0x80:
            # The fifth byte of a 32-bit number has space for four bits, the tenth of a 64-bit one for a single bit.
            if (shift < np.uint64(70) or byte < 2) and (bytes_max != INT_BYTES_MAX or bits <= np.uint64(0xFFFFFFFF)):
                after = at
            break
    return np.int64(bits), after


@helper
def varint(at: Int, end: Int, bytes_max: Int) -> tuple[Int, Int]:
    """A zigzag varint of at most `bytes_max` bytes: (value, address after it), the address -1 when it does not end before `end`.

    One and two bytes, as nearly all have, are read in place.
    """
    bits, after = np.int64(0), np.int64(-1)
    if at < end:
        first = byte_at(at)
        if first < 0x80:
            bits, after = first, at + 1
        else:
            second = byte_at(at + 1) if end - at > 1 else np.int64(0x80)
            if second < 0x80:
                bits, after = first & 0x7F | second << 7, at + 2
            else:
                bits, after = _long_varint(at, end, bytes_max)
    return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), after


@helper
def span(at: Int, end: Int) -> tuple[Int, Int, Int]:
    """A length, -1 for null, and as many bytes: (start, length, address after the bytes or -1)."""
    length, start = varint(at, end, INT_BYTES_MAX)
    if start < 0 or length < -1 or length > end - start:
        return start, length, np.int64(-1)
    return start, length, start + max(length, 0)


@helper
def head(at: Int, end: Int, last_offset_delta: Int) -> tuple[Int, Int, Int, Int]:
    """The fields before a record's key: (timestamp delta, offset delta, address of the key's length or -1, the record's end)."""
    length, body = varint(at, end, INT_BYTES_MAX)
    if body < 0 or length < 1 or length > end - body:
        return np.int64(0), np.int64(0), np.int64(-1), end
    record_end = body + length
    timestamp_delta, delta_at = varint(body + 1, record_end, LONG_BYTES_MAX)
    if delta_at < 0:
        return timestamp_delta, np.int64(0), np.int64(-1), record_end
    offset_delta, rest_at = varint(delta_at, record_end, INT_BYTES_MAX)
    if offset_delta < 0 or offset_delta > last_offset_delta:
        rest_at = np.int64(-1)
    return timestamp_delta, offset_delta, rest_at, record_end


@helper
def headers(at: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """A record's headers, which must fill it to its end: (address of the first, how many or -1, bytes of keys, bytes of values)."""
    count, first = varint(at, end, INT_BYTES_MAX)
    if first < 0 or count < 0 or count > (end - first) // 2:
        return at, np.int64(-1), np.int64(0), np.int64(0)
    if count == 0:
        return first, np.int64(0) if first == end else np.int64(-1), np.int64(0), np.int64(0)
    key_bytes, value_bytes = _header_bytes(first, end, count)
    return first, count if key_bytes >= 0 else np.int64(-1), key_bytes, value_bytes


@helper
def record(at: Int, end: Int, last_offset_delta: Int) -> tuple[Int, Int, tuple[Int, Int], tuple[Int, Int], tuple[Int, Int, Int, Int], Int]:
    """A whole record: (timestamp delta, offset delta, key and value as (address, length or -1), headers as `headers` gives them, the
    record's end, -1 for bytes that are no record)."""
    delta_ms, offset_delta, key_length_at, record_end = head(at, end, last_offset_delta)
    key_at = value_at = headers_at = np.int64(0)
    key_length = value_length = np.int64(-1)
    found = (np.int64(0), np.int64(-1), np.int64(0), np.int64(0))
    if key_length_at >= 0:
        key_at, key_length, value_length_at = span(key_length_at, record_end)
        if value_length_at >= 0:
            value_at, value_length, headers_at = span(value_length_at, record_end)
            if headers_at >= 0:
                found = headers(headers_at, record_end)
    return delta_ms, offset_delta, (key_at, key_length), (value_at, value_length), found, record_end if found[1] >= 0 else np.int64(-1)


@jit
def _header_bytes(at: Int, end: Int, count: Int) -> tuple[Int, Int]:
    """Bytes of all keys and of all values of so many headers; the first is -1 when they are not sound or do not end at `end`."""
    key_bytes = value_bytes = np.int64(0)
    for _ in range(count):
        _, key_length, at = span(at, end)
        if at < 0 or key_length < 0:
            return np.int64(-1), value_bytes
        _, value_length, at = span(at, end)
        if at < 0:
            return np.int64(-1), value_bytes
        key_bytes += key_length
        value_bytes += max(value_length, 0)
    return key_bytes if at == end else np.int64(-1), value_bytes
