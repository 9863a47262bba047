"""Tables on the disk, written and read by Spark: whole or in parts, replaced, missing, and removed."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.spark.runner.tables import PART, TableError, Tables

GROUPS = StructType([StructField("group", StringType()), StructField("lag", LongType())])


@pytest.fixture
def tables(spark: Any, tmp_path: Path) -> Tables:
    return Tables(spark, str(tmp_path))


def _frame(tables: Tables, *rows: tuple[str, int]) -> Any:
    return tables.spark.createDataFrame(rows, GROUPS)


def _rows(tables: Tables, name: str = "lag") -> list[tuple[str, int]]:
    return sorted(tuple(row) for row in tables.read(name, GROUPS).collect())


def test_a_table_is_replaced_as_a_whole(tables: Tables, tmp_path: Path):
    tables.write("lag", _frame(tables, ("a", 1), ("b", 2)), GROUPS)
    stored = tables.write("lag", _frame(tables, ("c", 3)), GROUPS)
    assert [tuple(row) for row in stored.collect()] == [("c", 3)]
    assert _rows(tables) == [("c", 3)]
    assert list((tmp_path / "lag").glob("*.parquet"))


def test_a_repeated_part_replaces_itself_alone(tables: Tables, tmp_path: Path):
    tables.append("lag", _frame(tables, ("a", 1)), GROUPS, 0)
    tables.append("lag", _frame(tables, ("b", 2)), GROUPS, 7)
    tables.append("lag", _frame(tables, ("b", 3), ("c", 4)), GROUPS, 7)
    assert _rows(tables) == [("a", 1), ("b", 3), ("c", 4)]
    assert sorted(path.name for path in (tmp_path / "lag").iterdir()) == [f"{PART}=0", f"{PART}=7"]


def test_the_number_of_a_part_is_no_column_of_the_table(tables: Tables):
    tables.append("lag", _frame(tables, ("a", 1)), GROUPS, 0)
    assert tables.read("lag", GROUPS).columns == ["group", "lag"]


def test_a_missing_table_is_empty_and_has_its_columns(tables: Tables):
    missing = tables.read("missing", GROUPS)
    assert (missing.collect(), missing.schema) == ([], GROUPS)


def test_columns_that_were_stored_besides_are_not_read(tables: Tables):
    wide = StructType([*GROUPS.fields, StructField("topic", StringType())])
    tables.write("lag", tables.spark.createDataFrame([("a", 1, "t")], wide), wide)
    assert _rows(tables) == [("a", 1)]


def test_a_cleared_table_is_gone_and_others_stay(tables: Tables, tmp_path: Path):
    for name in ("lag", "other"):
        tables.append(name, _frame(tables, ("a", 1)), GROUPS, 0)
        tables.check_continued(name)
    tables.clear("lag", GROUPS)
    tables.clear("never_written", GROUPS)
    with pytest.raises(TableError, match=f"there is no table {tmp_path}/lag, .*: delete the folders _checkpoint_"):
        tables.check_continued("lag")
    assert (_rows(tables), _rows(tables, "other")) == ([], [("a", 1)])
    assert not (tmp_path / "lag").exists()


def test_nothing_is_written_with_other_columns(tables: Tables, tmp_path: Path):
    for write in (lambda frame: tables.write("lag", frame, GROUPS), lambda frame: tables.append("lag", frame, GROUPS, 0)):
        with pytest.raises(AssertionError, match="table lag: "):
            write(tables.spark.createDataFrame([("a", 1)], "group string, lag int"))
    assert not (tmp_path / "lag").exists()


def test_another_format_replaces_tables_and_parts(spark: Any, tmp_path: Path):
    tables = Tables(spark, str(tmp_path), "orc")
    assert tables.folder("lag") is None, "only Spark can write it"
    tables.write("lag", _frame(tables, ("a", 1)), GROUPS)
    assert _rows(tables) == [("a", 1)]
    tables.clear("lag", GROUPS)
    tables.append("lag", _frame(tables, ("a", 1)), GROUPS, 0)
    tables.append("lag", _frame(tables, ("b", 2)), GROUPS, 7)
    tables.append("lag", _frame(tables, ("b", 3), ("c", 4)), GROUPS, 7)
    assert _rows(tables) == [("a", 1), ("b", 3), ("c", 4)]
    assert tables.read("lag", GROUPS).columns == ["group", "lag"]
    assert list((tmp_path / "lag").rglob("*.orc"))
