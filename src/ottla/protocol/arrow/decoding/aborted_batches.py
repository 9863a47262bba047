"""Which batches of a read_committed fetch are left out: those of transactions that were aborted (KIP-98).

It uses the list of aborted transactions of the Fetch response and the abort markers among the batches. It reads no data records.
"""

from collections.abc import Sequence

import numpy as np

from ottla.protocol.arrow.decoding import batch_headers
from ottla.protocol.arrow.primitives.compilation import Array
from ottla.protocol.records.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, decode_batch
from ottla.protocol.records.control import ControlType, control_type

Aborted = Sequence[tuple[int, int]]
"""Aborted transactions as in a Fetch response: producer id and first offset; each ends at that producer's abort marker."""


def without_aborted(buffer: memoryview, table: Array, aborted: Aborted) -> Array:
    """For each batch of `table` (columns: see kernels) whether its transaction, if it has one, was not aborted.

    All batches of the response must be there, those outside of the requested offsets too: markers may be among them. Raises PeerError
    on a damaged marker of a transaction that was aborted.
    """
    stays = np.ones(len(table), bool)
    is_transactional = (table[:, batch_headers.ATTRIBUTES] & TRANSACTIONAL_BIT) != 0
    rows = np.flatnonzero(is_transactional & np.isin(table[:, batch_headers.PRODUCER_ID], [producer for producer, _ in aborted]))
    waiting = sorted(aborted, key=lambda pair: pair[1], reverse=True)
    in_force: set[int] = set()
    for row, batch in zip(rows.tolist(), table[rows].tolist(), strict=True):
        last_offset = batch[batch_headers.BASE_OFFSET] + batch[batch_headers.LAST_OFFSET_DELTA]
        while waiting and waiting[-1][1] <= last_offset:
            in_force.add(waiting.pop()[0])
        producer = batch[batch_headers.PRODUCER_ID]
        if producer not in in_force:
            continue
        if not batch[batch_headers.ATTRIBUTES] & CONTROL_BIT:
            stays[row] = False
        elif _is_abort(buffer, batch):
            in_force.discard(producer)
    return stays


def _is_abort(buffer: memoryview, batch: list[int]) -> bool:
    """Whether the marker of a control batch ends an aborted transaction; the cleaner may have left the batch without its record."""
    markers = decode_batch(buffer, batch[batch_headers.POSITION] - HEADER_BYTES)
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT
