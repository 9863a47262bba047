"""Files and folders on any storage that Spark can write to; PySpark has no API for them."""

from typing import Any

from pyspark.sql import SparkSession


def exists(spark: SparkSession, path: str) -> bool:
    """Whether there is a file or folder at this path or URL."""
    file_system, location = _locate(spark, path)
    return bool(file_system.exists(location))


def remove(spark: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing where there is none."""
    file_system, location = _locate(spark, path)
    file_system.delete(location, True)


def _locate(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system and path."""
    context: Any = spark.sparkContext
    location = context._jvm.org.apache.hadoop.fs.Path(path)
    return location.getFileSystem(context._jsc.hadoopConfiguration()), location
