"""Chunks become one sequence, in the order that a sort of all records has."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.migration.chunks import CHUNK_ORDER, CHUNKS, chunk
from ottla.spark.migration.merging import BYTES_MIN, merge
from ottla.spark.migration.routing import LATEST, PHASE, TARGET

Row = tuple[int, int, int, int]

PARTITIONS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=30).map(sorted), min_size=1, max_size=4)


def chunks_of(partition: int, rows: list[Row], size: int) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        columns = {
            TARGET: pa.array([0] * len(part), pa.int32()),
            PHASE: pa.array([row[0] for row in part], pa.int32()),
            LATEST: pa.array([row[1] for row in part], pa.int64()),
            "partition": pa.array([partition] * len(part), pa.int32()),
            "offset": pa.array([row[3] for row in part], pa.int64()),
        }
        made.append(chunk(pa.RecordBatch.from_pydict(columns), 1))
    return made


@given(PARTITIONS, st.integers(1, 7), st.integers(1, 40), st.sampled_from([1, 1000, BYTES_MIN]))
def test_every_record_in_order(partitions: list[list[tuple[int, int]]], size: int, rows_min: int, bytes_min: int) -> None:
    rows = [[(phase, latest, number, offset) for offset, (phase, latest) in enumerate(each)] for number, each in enumerate(partitions)]
    chunks = [made for number, each in enumerate(rows) for made in chunks_of(number, each, size)]
    chunks.sort(key=lambda each: tuple(each.column(name)[0].as_py() for name in CHUNK_ORDER))
    tables = merge(chunks, rows_min=rows_min, bytes_min=bytes_min)
    merged = [row for table in tables for row in zip(*(table.column(name).to_pylist() for name in CHUNK_ORDER))]
    assert merged == sorted(row for each in rows for row in each)


def test_nothing_of_nothing() -> None:
    assert list(merge([])) == []
    assert list(merge([pa.RecordBatch.from_pylist([], pa.schema([(name, pa.binary()) for name in CHUNKS.fieldNames()]))])) == []


def test_times_too_far_apart_for_one_number() -> None:
    far = 2**62
    rows = {0: [(0, 0, 0, 0), (1, far, 0, 1)], 1: [(0, 5, 1, 0), (1, far, 1, 1)]}
    chunks = [made for number, each in rows.items() for made in chunks_of(number, each, 2)]
    merged = [row for table in merge(chunks) for row in zip(*(table.column(name).to_pylist() for name in CHUNK_ORDER))]
    assert merged == sorted(row for each in rows.values() for row in each)
