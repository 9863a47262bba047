"""Chunks, sorted by their first records, to records in order: a merge that holds about one chunk of each source partition at a time.

Every record before the first one of the next chunk is here: chunks come in the order of their first records.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.migration.chunks import CHUNK_ORDER
from ottla.spark.migration.routing import LATEST, PHASE

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MIN: Final = 65_536
BYTES_MIN: Final = 64 * 1024 * 1024
"""Sort when so many rows have come, or so many bytes: sorting at every chunk would sort those that stay again and again."""


def merge(chunks: "Iterable[pa.RecordBatch]", *, rows_min: int = ROWS_MIN, bytes_min: int = BYTES_MIN) -> "Iterator[pa.Table]":
    """The records in their order: by phase, latest time, source partition, offset. `chunks`: rows of CHUNKS, sorted by CHUNK_ORDER."""
    held: list[pa.Table] = []
    new_rows = new_bytes = 0
    for first, records in _opened(chunks):
        if new_rows >= rows_min or new_bytes >= bytes_min:
            ordered, keys = _sorted(held)
            ready = _rows_before(keys, first)
            if ready:
                yield ordered.slice(0, ready)
            held, new_rows, new_bytes = [ordered.slice(ready)], 0, 0
        held.append(records)
        new_rows += records.num_rows
        new_bytes += records.nbytes
    if held:
        yield _sorted(held)[0]


def _opened(chunks: "Iterable[pa.RecordBatch]") -> "Iterator[tuple[tuple[int, int], pa.Table]]":
    """Phase and latest time of the first record, and the records, of each chunk."""
    import pyarrow as pa

    for batch in chunks:
        for phase, latest, stream in zip(batch.column(PHASE).to_pylist(), batch.column(LATEST).to_pylist(), batch.column("records")):
            yield (phase, latest), pa.ipc.open_stream(stream.as_buffer()).read_all()


def _sorted(held: "list[pa.Table]") -> "tuple[pa.Table, tuple[Any, Any]]":
    """The rows of all tables in order, and the columns phase and latest of these."""
    import numpy as np
    import pyarrow as pa

    table = pa.concat_tables(held).combine_chunks()
    keys = [table.column(name).to_numpy() for name in CHUNK_ORDER]
    order = np.lexsort(keys[::-1])
    return table.take(pa.array(order)), (keys[0][order], keys[1][order])


def _rows_before(keys: tuple[Any, Any], first: tuple[int, int]) -> int:
    """How many sorted rows come before `first`, by phase and latest time."""
    import numpy as np

    phases, latest = keys
    start, end = (int(np.searchsorted(phases, first[0], side=side)) for side in ("left", "right"))
    return start + int(np.searchsorted(latest[start:end], first[1], side="left"))
