"""Paths of tables; what Spark writes and reads there: tests/spark/test_tables.py."""

from unittest.mock import create_autospec

import pytest
from pyspark.sql import SparkSession

from ottla.spark.runner.tables import Tables


@pytest.mark.parametrize("directory", ["/data", "/data/", "s3a://bucket/data/"])
def test_a_table_is_a_folder_of_its_name(directory: str):
    path = Tables(create_autospec(SparkSession), directory).path("rebalances")
    assert path == f"{directory.rstrip('/')}/rebalances"
