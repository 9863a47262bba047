"""The header that says where a copied record was in the source topic, `TOPIC:PARTITION:OFFSET` in ASCII, read column by column.

Only the last header of a record counts: a topic that was copied twice has one from each time. Importing it loads NumPy and Numba (the
extra `arrow`).
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow.primitives import Array, Int, helper, jit

FOREIGN = -1
"""The partition and the offset of a record without the header, or with that of another topic."""
_COLON, _ZERO = 0x3A, 0x30
_DIGITS_MAX = 18


class Positions(NamedTuple):
    """Source partition (int32) and source offset (int64) of each record, FOREIGN where the header does not have them."""

    partitions: "np.ndarray[tuple[int], np.dtype[np.int32]]"
    offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]"


def source_positions(headers: "pa.ListArray", name: str, topic: str) -> Positions:
    """The positions in `topic` by the header `name`; `headers` is a column of lists of (key, value), as the decoder makes it."""
    found = Positions(np.full(len(headers), FOREIGN, np.int32), np.full(len(headers), FOREIGN, np.int64))
    entries = headers.values
    if len(headers) and len(entries):
        keys, values = entries.field(0), entries.field(1)
        lists = np.asarray(headers.offsets)
        expected = np.frombuffer(name.encode(), np.uint8)
        prefix = np.frombuffer(f"{topic}:".encode(), np.uint8)
        _parse(lists, *_text(keys), *_text(values), expected, prefix, *found)
    return found


def _text(column: "pa.Array") -> tuple[Array, Array]:
    """Where each text begins (and the last one ends), and the bytes of all."""
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts, np.frombuffer(data or b"\0", np.uint8)


@jit
def _parse(
    lists: Array,
    key_starts: Array,
    keys: Array,
    value_starts: Array,
    values: Array,
    name: Array,
    prefix: Array,
    found: Array,
    offsets: Array,
) -> None:
    for row in range(len(found)):
        last = lists[row + 1] - 1
        if last < lists[row] or not _equals(keys, key_starts[last], key_starts[last + 1], name):
            continue
        start, end = value_starts[last], value_starts[last + 1]
        if end - start <= len(prefix) or not _equals(values, start, start + len(prefix), prefix):
            continue
        colon = _end_of_number(values, start + len(prefix), end)
        if colon < 0 or colon >= end or values[colon] != _COLON or _end_of_number(values, colon + 1, end) != end:
            continue
        found[row] = _number(values, start + len(prefix), colon)
        offsets[row] = _number(values, colon + 1, end)


@helper
def _equals(data: Array, start: Int, end: Int, expected: Array) -> Int:
    if end - start != len(expected):
        return False
    for at in range(len(expected)):  # noqa: SIM110 - a generator does not compile
        if data[start + at] != expected[at]:
            return False
    return True


@helper
def _end_of_number(data: Array, start: Int, end: Int) -> Int:
    """Where the digits that begin at `start` end, at most _DIGITS_MAX; -1 without any."""
    at = start
    while at < end and at - start < _DIGITS_MAX and _ZERO <= data[at] <= _ZERO + 9:
        at += 1
    return at if at > start else -1


@helper
def _number(data: Array, start: Int, end: Int) -> Int:
    value = np.int64(0)
    for at in range(start, end):
        value = value * 10 + np.int64(data[at]) - _ZERO
    return value
