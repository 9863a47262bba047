"""Chunks: each for the task that writes its target partitions; reading is tested in tests/spark/test_migrate.py."""

import numpy as np
import pyarrow as pa

from ottla.spark.migration.checksums import Checksum, checksum
from ottla.spark.migration.chunks import CHUNK_ORDER, CHUNKS, COLUMNS, OFFSET_COLUMNS, Seen, checksums, chunk
from ottla.spark.migration.routing import LATEST, ORDER, PHASE, TARGET
from ottla.spark.schemas import KAFKA_WITH_HEADERS


def routed(targets: list[int]) -> pa.RecordBatch:
    rows = len(targets)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"%d" % each for each in range(rows)], pa.binary()),
            "partition": pa.array([4] * rows, pa.int32()),
            "offset": pa.array(range(10, 10 + rows), pa.int64()),
            TARGET: pa.array(targets, pa.int32()),
            PHASE: pa.array([0] * rows, pa.int32()),
            LATEST: pa.array(range(rows), pa.int64()),
        }
    )


def test_a_chunk_for_each_writing_task_with_its_records_in_order() -> None:
    made = chunk(routed([5, 0, 3, 2, 1]), 2)
    assert made.schema.names == CHUNKS.fieldNames()
    rows = made.to_pylist()
    assert [row["bucket"] for row in rows] == [0, 1]
    tables = [pa.ipc.open_stream(row["records"]).read_all() for row in rows]
    assert [table.column("offset").to_pylist() for table in tables] == [[11, 13], [10, 12, 14]]
    assert [table.column(TARGET).to_pylist() for table in tables] == [[0, 2], [5, 3, 1]]
    assert [[row[name] for name in CHUNK_ORDER] for row in rows] == [[0, 1, 4, 11], [0, 0, 4, 10]]


def test_a_large_chunk_is_divided() -> None:
    rows = chunk(routed([1] * 10), 2, bytes_max=routed([1] * 10).nbytes // 3).to_pylist()
    assert [row["offset"] for row in rows] == [10, 13, 16, 19]
    assert len(chunk(routed([1] * 10), 2, bytes_max=1).to_pylist()) == 10


def test_no_records_are_no_chunk() -> None:
    assert chunk(routed([]), 3).num_rows == 0


def test_the_read_columns_are_those_of_the_source() -> None:
    assert set(OFFSET_COLUMNS) < set(COLUMNS) <= set(KAFKA_WITH_HEADERS.fieldNames())
    assert not set(COLUMNS) & set(ORDER)


def test_the_offsets_that_were_read_by_what_is_done_with_the_records() -> None:
    def of(*offsets: int) -> Checksum:
        return checksum(np.array(offsets, np.int64))

    batch = routed([0, 0, 0])
    assert checksums(4, batch, batch) == {Seen(4, True): of(10, 11, 12)}
    assert checksums(4, batch, batch.slice(2)) == {Seen(4, True): of(12), Seen(4, False): of(10, 11)}
