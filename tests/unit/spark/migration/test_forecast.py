"""Places in the order, held against Python's own comparison; whole forecasts: tests/spark/test_migrate.py."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.migration.forecast import BEFORE_ALL, BEHIND_ALL, COUNTS, Counts, comes_before, earliest_places, first_places, total_counts
from ottla.spark.migration.routing import LATEST, PHASE, TARGET

SMALL = st.integers(0, 3)
ROWS = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=12)


def records(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """Target partition, phase and latest time; offsets count from 0, phases and times rise with them."""
    ordered = sorted((phase, latest) for _, phase, latest in rows)
    columns = {
        TARGET: pa.array([target for target, _, _ in rows], pa.int32()),
        PHASE: pa.array([phase for phase, _ in ordered], pa.int32()),
        LATEST: pa.array([latest for _, latest in ordered], pa.int64()),
        "offset": pa.array(range(len(rows)), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def places(batch: int, partition: int, of: pa.RecordBatch) -> list[tuple[int, int, int, int, int]]:
    columns = (of.column(name).to_pylist() for name in (PHASE, LATEST, "offset"))
    return [(batch, phase, latest, partition, offset) for phase, latest, offset in zip(*columns, strict=True)]


@given(ROWS, st.data(), SMALL, SMALL)
def test_places_compare_as_tuples(rows: list[tuple[int, int, int]], data: st.DataObject, batch: int, partition: int) -> None:
    of = records(rows)
    place = st.tuples(SMALL, SMALL, SMALL, SMALL, SMALL) | st.sampled_from([BEFORE_ALL, BEHIND_ALL])
    limits = [data.draw(place) for _ in rows]
    found = comes_before(batch, partition, of, np.array(limits, np.int64).reshape(len(rows), 5).T)
    assert found.tolist() == [each < limit for each, limit in zip(places(batch, partition, of), limits, strict=True)]


@given(ROWS, st.integers(0, 13))
def test_the_first_unread_record_of_each_target_partition(rows: list[tuple[int, int, int]], committed: int) -> None:
    of = records(rows)
    expected: dict[int, tuple[int, ...]] = {}
    for target, place in zip(of.column(TARGET).to_pylist(), places(7, 1, of), strict=True):
        if place[-1] >= committed:
            expected.setdefault(target, place)
    assert dict(first_places(7, 1, of, committed)) == expected


def test_the_results_of_tasks_are_put_together() -> None:
    rows = [{TARGET: 1, "group": 0, "place": [2, 0, 0, 0, 0]}, {TARGET: 1, "group": 0, "place": [1, 9, 9, 9, 9]}]
    assert earliest_places(rows, 1, 2) == [[BEHIND_ALL, (1, 9, 9, 9, 9)]]
    names = COUNTS.fieldNames()
    counts = [dict(zip(names, (1, records, [before], [4], [1]), strict=True)) for records, before in ((5, 2), (6, 3))]
    assert total_counts(counts, 1, 2) == {0: Counts(0, (0,), (0,), (0,)), 1: Counts(11, (5,), (8,), (2,))}
