"""Loading the kernels ahead of use: compiled once on a machine, then read from the cache; a process that forks does it before.

It touches no Arrow, and decodes one batch of its own making so that everything a decoder calls is ready.
"""

import numpy as np

from ottla.columnar import kernels
from ottla.core.model import Header, Record
from ottla.core.records.batch import encode_batch


def warm_up() -> None:
    """Call every kernel once with the array types that the decoder uses."""
    batch = bytes(encode_batch([Record(0, 0, b"k", b"v", (Header("h", b""),))]))
    buffer = np.frombuffer(batch, np.uint8)
    table = np.empty((1, kernels.TABLE_COLUMNS), np.int64)
    kernels.scan_headers(buffer, table)
    columns = (np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int32))
    spans, totals, cursor = np.empty((1, 6), np.int64), np.empty(5, np.int64), np.array([0, -1, 0], np.int64)
    kernels.parse_records(buffer, table, (0, 1), cursor, columns, spans, totals)
    offsets, bits, pairs = np.empty(2, np.int32), np.zeros(1, np.uint8), np.empty((1, 4), np.int64)
    kernels.gather_headers(buffer, spans, offsets, bits, pairs)
    kernels.gather_bytes(buffer, spans, 0, offsets, np.empty(1, np.uint8), bits)
