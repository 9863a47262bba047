"""Batches of sorted rows to the rows of each group, however the batches are cut."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark import by_group
from ottla.spark.by_group import make_batches

SCHEMA = pa.schema({"group": pa.string(), "sum": pa.int64()})
ROWS = [{"group": group, "number": number} for group, count in (("a", 3), ("b", 1), ("c", 4)) for number in range(count)]


def sums(group: str, rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"group": group, "sum": sum(row["number"] for row in rows)}] if group != "b" else []


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("rows_max", [1, 100])
def test_a_group_may_begin_in_one_batch_and_end_in_another(size: int, rows_max: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(by_group, "ROWS_MAX", rows_max)
    batches = [pa.RecordBatch.from_pylist(ROWS[at : at + size]) for at in range(0, len(ROWS), size)]
    made = pa.Table.from_batches(make_batches(batches, sums, SCHEMA), SCHEMA)
    assert made.to_pylist() == [{"group": "a", "sum": 3}, {"group": "c", "sum": 6}]


def test_no_rows():
    assert [batch.num_rows for batch in make_batches([], sums, SCHEMA)] == [0]
