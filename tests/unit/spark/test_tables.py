"""Where tables lie, and that their columns are checked before anything is written."""

from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.schemas import KAFKA, REBALANCES
from ottla.spark.tables import Tables


@pytest.mark.parametrize("directory", ["/data", "/data/", "s3a://bucket/data/"])
def test_a_table_is_a_folder_of_its_name(directory: str):
    path = Tables(create_autospec(SparkSession), directory).path("rebalances")
    assert path == f"{directory.rstrip('/')}/rebalances"


def test_other_columns_are_not_written():
    frame = create_autospec(DataFrame, instance=True)
    frame.schema, frame.write = KAFKA, SimpleNamespace()
    with pytest.raises(AssertionError, match="table rebalances"):
        Tables(create_autospec(SparkSession), "/data").write("rebalances", frame, REBALANCES)
