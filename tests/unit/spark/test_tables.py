"""Where tables and their parts lie, and that columns are checked before anything is written; Spark is played by stubs."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.schemas import KAFKA, REBALANCES
from ottla.spark.tables import PART, Tables


@pytest.fixture
def spark() -> Any:
    """A session whose storage holds nothing but /data/kept."""
    session = MagicMock()
    hadoop = session.sparkContext._jvm.org.apache.hadoop.fs
    hadoop.Path.side_effect = lambda path: MagicMock(
        getFileSystem=lambda _conf: SimpleNamespace(exists=lambda _: path == "/data/kept", delete=lambda *_: session.deleted(path))
    )
    return session


@pytest.mark.parametrize("directory", ["/data", "/data/", "s3a://bucket/data/"])
def test_a_table_is_a_folder_of_its_name(directory: str):
    path = Tables(create_autospec(SparkSession), directory).path("rebalances")
    assert path == f"{directory.rstrip('/')}/rebalances"


def test_other_columns_are_not_written():
    frame = create_autospec(DataFrame, instance=True)
    frame.schema, frame.write = KAFKA, SimpleNamespace()
    tables = Tables(create_autospec(SparkSession), "/data")
    with pytest.raises(AssertionError, match="table rebalances"):
        tables.write("rebalances", frame, REBALANCES)
    with pytest.raises(AssertionError, match="table rebalances"):
        tables.append("rebalances", frame, REBALANCES, 3)


def test_a_part_replaces_itself_alone(spark: Any):
    frame = MagicMock(schema=KAFKA)
    Tables(spark, "/data").append("t", frame, KAFKA, 7)
    frame.write.mode.assert_called_once_with("overwrite")
    frame.write.mode().parquet.assert_called_once_with(f"/data/t/{PART}=7")


def test_a_table_that_is_not_there_is_empty_and_one_that_is_has_its_own_columns_only(spark: Any):
    tables = Tables(spark, "/data")
    assert tables.read("missing", KAFKA) is spark.createDataFrame.return_value
    spark.createDataFrame.assert_called_once_with([], KAFKA)
    assert tables.read("kept", KAFKA) is spark.read.schema().parquet().select.return_value
    spark.read.schema().parquet().select.assert_called_once_with(*KAFKA.fieldNames())


def test_what_is_removed_is_named_by_its_path(spark: Any):
    Tables(spark, "/data").remove("/data/_checkpoint_lag")
    spark.deleted.assert_called_once_with("/data/_checkpoint_lag")
