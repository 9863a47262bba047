"""Loading the kernels ahead of use: compiled once on a machine, then read from the cache; a process that forks does it before.

It touches no Arrow, and decodes one batch of its own making so that everything a decoder calls is ready.
"""

import numpy as np

from ottla.groups.log.arrow import kernels
from ottla.protocol.arrow import batches, record_kernels
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch


def load_kernels() -> None:
    """Call every kernel once with the types that the decoders use: whole numbers, most of them addresses."""
    found = batches.scan(encode_batch([Record(0, 0, b"k", b"v", (Header("h", b""),))]))
    (part,) = batches.slices(found, (0, 1))
    work = (part.source_at, part.table.ctypes.data, part.tasks.ctypes.data)
    record_kernels.sound_batches(*work, 1)
    space = np.zeros((8, 8), np.int64)
    addresses = (space.ctypes.data + np.arange(8) * space.strides[0]).tolist()
    out, state = np.zeros(record_kernels.OUT_WORDS, np.int64), np.zeros(record_kernels.STATE_WORDS, np.int64)
    for word in (record_kernels.KEYS, record_kernels.VALUES):
        out[word : word + record_kernels.BINARY_WORDS] = (*addresses[:3], 1)
    out[record_kernels.HEADER_SPANS], out[record_kernels.ROWS_MAX] = addresses[3], 1
    status = record_kernels.decode(*work, 0, 1, 0, 1, out.ctypes.data, state.ctypes.data)
    assert status == record_kernels.OK, "the batch of our own making is sound"
    arguments = [addresses[3], 1, *addresses[:3], *addresses[4:], 1]
    record_kernels.gather_headers(*arguments)
    out, state = np.zeros(kernels.OUT_WORDS, np.int64), np.zeros(kernels.STATE_WORDS, np.int64)
    # No column and no space: it stops before the first row.
    status = kernels.decode(*work, 0, 1, 0, 1, out.ctypes.data, state.ctypes.data)
    assert status == record_kernels.FULL, "without space no row is written"
