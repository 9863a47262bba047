"""Loading the kernels ahead of use: compiled once on a machine, then read from the cache; a process that forks does it before.

It touches no Arrow, and decodes one batch of its own making so that everything a decoder calls is ready.
"""

import numpy as np

from ottla.columnar import batches, group_record_kernels, kernels, record_kernels
from ottla.core.model import Header, Record
from ottla.core.records.batch import encode_batch


def warm_up() -> None:
    """Call every kernel once with the types that the decoders use: whole numbers, most of them addresses."""
    found = batches.scan(encode_batch([Record(0, 0, b"k", b"v", (Header("h", b""),))]))
    (piece,) = batches.pieces(found, (0, 1))
    work = (piece.source_at, piece.table.ctypes.data, piece.tasks.ctypes.data)
    record_kernels.sound_batches(*work, 1)
    room = np.zeros((8, 8), np.int64)
    addresses = (room.ctypes.data + np.arange(8) * room.strides[0]).tolist()
    out, state = np.zeros(record_kernels.OUT_WORDS, np.int64), np.zeros(record_kernels.STATE_WORDS, np.int64)
    for word in (record_kernels.KEYS, record_kernels.VALUES):
        out[word : word + record_kernels.BINARY_WORDS] = (*addresses[:3], 1)
    out[record_kernels.HEADER_SPANS], out[record_kernels.ROWS_MAX] = addresses[3], 1
    status = record_kernels.decode(*work, 0, 1, 0, 1, out.ctypes.data, state.ctypes.data)
    assert status == kernels.OK, "the batch of our own making is sound"
    arguments = [addresses[3], 1, *addresses[:3], *addresses[4:], 1]
    record_kernels.gather_headers(*arguments)
    out, state = np.zeros(group_record_kernels.OUT_WORDS, np.int64), np.zeros(group_record_kernels.STATE_WORDS, np.int64)
    # No column and no room: it stops before the first row.
    status = group_record_kernels.decode(*work, 0, 1, 0, 1, out.ctypes.data, state.ctypes.data)
    assert status == record_kernels.FULL, "without room nothing is written"
