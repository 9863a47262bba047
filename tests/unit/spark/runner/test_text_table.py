"""The latest rows of a real frame are in tests/spark/test_rebalances.py; here is what needs no Spark."""

import datetime
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, IntegerType, StringType, StructField, StructType, TimestampType

from ottla.spark.pipelines import Pipeline
from ottla.spark.runner import text_table as overviews
from ottla.spark.runner.text_table import overview_text, table_text


def test_a_list_by_size_shows_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(overviews, "table_text", lambda frame, **options: seen.append((frame, options)) or "text\n")
    pipeline = Pipeline(inputs={}, outputs={}, appended={}, steps=(), overview=lambda frame: frame.by_size)
    table = Mock()

    assert overview_text(pipeline, table, width=80, limit=7, since_ms=None) == "text\n"
    assert seen == [(table.by_size, {"width": 80, "rows_max": 7})]


TEXT, NUMBER = StringType(), IntegerType()


class Frame:
    """The part of a DataFrame that is used."""

    def __init__(self, columns: dict[str, DataType], rows: list[tuple]) -> None:
        self.columns = columns
        self.schema = StructType([StructField(name, kind) for name, kind in columns.items()])
        self.rows = [Row(*row) for row in rows]

    def limit(self, count: int) -> "Frame":
        return Frame(self.columns, self.rows[:count])

    def collect(self) -> list[Row]:
        return self.rows


def test_columns_and_their_sides():
    text = table_text(Frame({"name": TEXT, "count": NUMBER}, [("a", 1), (None, 200)]), width=80)
    assert text.splitlines() == ["name   count", "────────────", "a          1", "         200"]


def test_what_does_not_fit_ends_in_an_ellipsis():
    text = table_text(Frame({"name": TEXT, "n": NUMBER}, [("x" * 100, 1)]), width=30)
    assert max(map(len, text.splitlines())) <= 30
    assert "x…" in text


def test_the_widest_column_gives_way_first():
    text = table_text(Frame({"name": TEXT, "longer": TEXT, "n": NUMBER}, [("x" * 10, "y" * 60, 12345)]), width=40)
    assert "x" * 10 in text
    assert "12345" in text
    assert max(map(len, text.splitlines())) == 40


def test_times_stay_whole_where_a_text_can_give_way():
    rows = [("11-23 04:22:44", "JOIN_NEW"), ("11-23 04:22:48", "JOIN_NEW +LEAVE")]
    lines = table_text(Frame({"started": TEXT, "triggers": TEXT}, rows), width=27).splitlines()
    assert lines[2:] == ["11-23 04:22:44   JOIN_NEW", "11-23 04:22:48   JOIN_NEW …"]


def test_lists_times_and_member_ids_are_made_short():
    member = "worker-1-be6da87f-5113-4823-87bc-8f87161620de"
    text = table_text(
        Frame({"who": ArrayType(TEXT), "at": TimestampType()}, [([member, "b"], datetime.datetime(2026, 1, 2, 3, 4, 5))]), width=80
    )
    assert "worker-1-be6d…, b" in text
    assert "2026-01-02 03:04:05" in text


def test_long_tables_say_that_there_is_more():
    frame = Frame({"n": NUMBER}, [(i,) for i in range(10)])
    assert table_text(frame, width=80, rows_max=4).endswith("(only the first 4 rows)\n")
    assert "only" not in table_text(frame, width=80, rows_max=10)


def test_a_name_is_neither_markup_nor_control_characters() -> None:
    text = table_text(Frame({"name": TEXT}, [("[/red]a\x1b[2J\nb",)]), width=80)
    assert text.splitlines()[-1] == "[/red]a\\x1b[2J\\nb"
