"""Chunks, sorted by their first records, to records in order: a merge that holds about one chunk of each source partition at a time.

Every record before the first one of the next chunk is here: chunks come in the order of their first records.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.migration.chunks import CHUNK_ORDER
from ottla.spark.migration.routing import LATEST, PHASE

if TYPE_CHECKING:
    import numpy as np
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
    packed = _packed(*keys[:3])
    order = np.lexsort(keys[::-1]) if packed is None else np.argsort(packed, kind="stable")
    return table.take(pa.array(order)), (keys[0][order], keys[1][order])


def _packed(
    phases: "np.ndarray[Any, Any]", latest: "np.ndarray[Any, Any]", partitions: "np.ndarray[Any, Any]"
) -> "np.ndarray[Any, Any] | None":
    """One number for phase, latest time and partition, in their order; None where 63 bits are too few.

    A stable sort keeps the offsets in order, because each partition's rows come in theirs. It merges the runs that the chunks are, in a
    tenth of the time of a sort by four columns.
    """
    import numpy as np

    if not len(latest):
        return None
    low, span = int(latest.min()), int(latest.max()) - int(latest.min()) + 1
    count = int(partitions.max()) + 1
    if (int(phases.max()) + 1) * span * count >= 2**63:
        return None
    packed: np.ndarray[Any, Any] = (phases.astype(np.int64) * span + (latest - low)) * count + partitions
    return packed


def _rows_before(keys: tuple[Any, Any], first: tuple[int, int]) -> int:
    """How many sorted rows come before `first`, by phase and latest time."""
    import numpy as np

    phases, latest = keys
    start, end = (int(np.searchsorted(phases, first[0], side=side)) for side in ("left", "right"))
    return start + int(np.searchsorted(latest[start:end], first[1], side="left"))
