"""Fetched bytes as groups of plain record bytes: batch headers walked, checksums checked, compressed batches expanded.

It decides which batches are worth decoding (control batches and batches outside the offsets asked for are not) and keeps the groups small,
so that one call of a kernel fills one Arrow batch. It never looks into a record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np

from ottla.columnar import kernels
from ottla.columnar.transactions import Aborted, without_aborted
from ottla.core.errors import PeerError
from ottla.core.records.batch import ATTRIBUTES_AT, CODEC_MASK, CONTROL_BIT, DECOMPRESSED_BYTES_MAX, HEADER_BYTES
from ottla.core.records.compression import Codec, decompress
from ottla.core.records.record import RECORD_BYTES_MIN

Array = Any

GROUP_BYTES_MAX = 8 * 1024 * 1024
"""Most record bytes of a group, except for one larger batch."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The whole batches of a fetched buffer: `table` has one row a batch (columns: see kernels)."""

    buffer: memoryview
    table: Array

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch, where the next fetch goes on; None without a batch."""
        if len(self.table) == 0:
            return None
        last = self.table[-1]
        return int(last[kernels.BASE_OFFSET]) + int(last[kernels.LAST_OFFSET_DELTA]) + 1


@dataclass(frozen=True, slots=True)
class Group:
    """Batches that are decoded together: `table` positions point into `buffer` (uint8), which holds nothing compressed."""

    buffer: Array
    table: Array


def scan(buffer: bytes | bytearray | memoryview) -> Batches:
    """Walk the batch headers of `buffer`, the record bytes of a Fetch answer or of a segment. Checksums are checked later, by `groups`.

    A partial batch at the end is left out. Raises PeerError on bytes that are no batches of format v2 (KIP-98).
    """
    view = memoryview(buffer).toreadonly().cast("B")
    # Read-only on purpose: one type of array means one compilation of each kernel.
    array = np.frombuffer(view, np.uint8)
    table = np.empty((256, kernels.TABLE_COLUMNS), np.int64)
    count, _, status = kernels.scan_headers(array, table)
    if count > len(table):
        table = np.empty((count, kernels.TABLE_COLUMNS), np.int64)
        count, _, status = kernels.scan_headers(array, table)
    if status != kernels.OK:
        raise PeerError(kernels.STATUS_TEXTS[status])
    return Batches(view, table[:count])


def groups(batches: Batches, bounds: tuple[int, int], rows_max: int, aborted: Aborted = ()) -> Iterator[Group]:
    """The batches that hold offsets inside `bounds` (first, end exclusive), in groups of at most `rows_max` records and GROUP_BYTES_MAX
    bytes; a batch that is larger stands alone.

    Raises PeerError on a wrong CRC-32C, a record count that cannot fit, and compressed bytes that cannot be expanded (within
    DECOMPRESSED_BYTES_MAX).
    """
    pending: list[int] = []
    expanded: dict[int, bytes] = {}
    rows = size = 0
    stays = without_aborted(batches.buffer, batches.table, aborted).tolist() if aborted else None
    # Plain lists: reading single numbers out of a NumPy array costs more than checking the checksum.
    for index, batch in enumerate(batches.table.tolist()):
        base = batch[kernels.BASE_OFFSET]
        if batch[kernels.ATTRIBUTES] & CONTROL_BIT or base >= bounds[1] or base + batch[kernels.LAST_OFFSET_DELTA] < bounds[0]:
            continue
        if stays is not None and not stays[index]:
            continue
        plain = _check(batches.buffer, batch)
        count, batch_bytes = batch[kernels.RECORD_COUNT], len(plain)
        if pending and (rows + count > rows_max or size + batch_bytes > GROUP_BYTES_MAX):
            yield _group(batches, pending, expanded)
            pending, expanded, rows, size = [], {}, 0, 0
        pending.append(index)
        if isinstance(plain, bytes):
            expanded[index] = plain
        rows += count
        size += batch_bytes
    if pending:
        yield _group(batches, pending, expanded)


def _check(buffer: memoryview, batch: list[int]) -> bytes | memoryview:
    """The record bytes of one batch, its checksum checked: a view where they were not compressed, new bytes where they were."""
    start, end = batch[kernels.POSITION], batch[kernels.END]
    if crc32c.crc32c(buffer[start - HEADER_BYTES + ATTRIBUTES_AT : end]) != batch[kernels.CRC]:
        raise PeerError(f"CRC-32C of the record batch at offset {batch[kernels.BASE_OFFSET]} is wrong")
    plain: bytes | memoryview = buffer[start:end]
    number = batch[kernels.ATTRIBUTES] & CODEC_MASK
    if number:
        plain = decompress(_codec(number), plain, output_bytes_max=DECOMPRESSED_BYTES_MAX)
    # The count comes from outside and sizes arrays: it must fit into the bytes that are there.
    if not 0 <= batch[kernels.RECORD_COUNT] <= len(plain) // RECORD_BYTES_MIN:
        raise PeerError(f"{batch[kernels.RECORD_COUNT]} records declared in {len(plain)} bytes")
    return plain


def _codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError as error:
        raise PeerError(f"a batch names codec {number}, which does not exist") from error


def _group(batches: Batches, pending: list[int], expanded: dict[int, bytes]) -> Group:
    table = batches.table[pending]
    if not expanded:
        return Group(np.frombuffer(batches.buffer, np.uint8), table)
    parts: list[memoryview | bytes] = []
    at = 0
    for row, index in zip(table, pending, strict=True):
        part = expanded.get(index, batches.buffer[row[kernels.POSITION] : row[kernels.END]])
        parts.append(part)
        row[kernels.POSITION], row[kernels.END] = at, at + len(part)
        at += len(part)
    return Group(np.frombuffer(b"".join(parts), np.uint8), table)
