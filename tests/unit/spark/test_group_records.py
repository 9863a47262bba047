"""Steps that several pipelines share."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark import group_records
from ottla.spark.group_records import COMMIT_RECORDS, columns, make_batches
from ottla.spark.schemas import GROUP_RECORDS

SCHEMA = pa.schema({"group": pa.string(), "sum": pa.int64()})
ROWS = [{"group": group, "number": number} for group, count in (("a", 3), ("b", 1), ("c", 4)) for number in range(count)]


def sums(group: str, rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"group": group, "sum": sum(row["number"] for row in rows)}] if group != "b" else []


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("rows_max", [1, 100])
def test_a_group_may_begin_in_one_batch_and_end_in_another(size: int, rows_max: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_records, "ROWS_MAX", rows_max)
    batches = [pa.RecordBatch.from_pylist(ROWS[at : at + size]) for at in range(0, len(ROWS), size)]
    made = pa.Table.from_batches(make_batches(batches, sums, SCHEMA), SCHEMA)
    assert made.to_pylist() == [{"group": "a", "sum": 3}, {"group": "c", "sum": 6}]


def test_no_rows():
    assert [batch.num_rows for batch in make_batches([], sums, SCHEMA)] == [0]


def test_columns_are_those_of_group_records_in_their_order():
    assert columns("offset", "partition").fieldNames() == ["partition", "offset"]
    assert all(field in GROUP_RECORDS.fields for field in COMMIT_RECORDS.fields)
    assert "members" not in COMMIT_RECORDS.fieldNames()
    with pytest.raises(AssertionError, match="moon"):
        columns("offset", "moon")
