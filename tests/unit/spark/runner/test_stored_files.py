"""Hadoop's calls for files on any storage, with stubs; on a disk: tests/spark/test_tables.py."""

from unittest.mock import Mock

from ottla.spark.runner.stored_files import exists, remove


def test_files_are_looked_for_and_deleted_where_their_path_says():
    spark = Mock()
    make = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    file_system = make.return_value.getFileSystem.return_value
    file_system.exists.return_value = True
    assert exists(spark, "s3a://bucket/t") is True
    remove(spark, "s3a://bucket/t")
    assert [call.args for call in make.call_args_list] == [("s3a://bucket/t",)] * 2
    file_system.delete.assert_called_once_with(make.return_value, True)
