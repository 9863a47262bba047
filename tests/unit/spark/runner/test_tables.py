"""Paths of tables; what Spark writes and reads there: tests/spark/test_tables.py."""

from unittest.mock import Mock, create_autospec

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines import pipelines
from ottla.spark.runner.tables import TableError, Tables, is_stored, remove_stored, table_names


@pytest.mark.parametrize("directory", ["/data", "/data/", "s3a://bucket/data/"])
def test_a_table_is_a_folder_of_its_name(directory: str):
    path = Tables(create_autospec(SparkSession), directory).path("rebalances")
    assert path == f"{directory.rstrip('/')}/rebalances"


def test_files_are_looked_for_and_deleted_where_their_path_says():
    spark = Mock()
    make = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    file_system = make.return_value.getFileSystem.return_value
    file_system.exists.return_value = True
    assert is_stored(spark, "s3a://bucket/t") is True
    remove_stored(spark, "s3a://bucket/t")
    assert [call.args for call in make.call_args_list] == [("s3a://bucket/t",)] * 2
    file_system.delete.assert_called_once_with(make.return_value, True)


def test_the_first_output_has_the_name_and_the_others_begin_with_it():
    assert table_names("lake.kafka.prod_lag", pipelines()["lag"]) == {
        "lag": "lake.kafka.prod_lag",
        "lag_history": "lake.kafka.prod_lag_history",
        "lag_commits": "lake.kafka.prod_lag_commits",
        "end_offset_history": "lake.kafka.prod_lag_end_offset_history",
    }
    assert table_names("commits", pipelines()["offset_commits"]) == {
        "offset_commits": "commits",
        "group_record_counts": "commits_group_record_counts",
    }


@pytest.mark.parametrize("name", pipelines())
def test_no_two_tables_of_a_pipeline_have_one_name(name: str):
    pipeline = pipelines()[name]
    names = table_names("t", pipeline)
    assert set(names) == {*pipeline.outputs, *pipeline.appended}
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a.`b`", "a.{b}"])
def test_what_is_no_name_is_refused(name: str):
    with pytest.raises(TableError, match=r"is no name of a table: write CATALOG\.SCHEMA\.TABLE"):
        table_names(name, pipelines()["lag"])
