"""Tables as folders of Parquet files, or of another format that Spark can write, in which pipelines store their outputs.

It checks the columns of a table and writes it whole, or appends the rows of one micro-batch in a folder of their own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

PARQUET, DELTA = "parquet", "delta"
PART: Final = "part_id"
"""The extra column of a table that was written in parts: Spark makes it from the folder's name."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables under `directory`, a path or an address that Spark can write.

    `format`: a format that Spark can replace partitions of, such as orc or delta (with Delta's jars in the session).
    """

    spark: SparkSession
    directory: str
    format: str = PARQUET

    def path(self, name: str) -> str:
        """The path of a table."""
        return f"{self.directory.rstrip('/')}/{name}"

    def folder(self, name: str) -> Path | None:
        """The folder of a table where this machine's workers can write it themselves; None where only Spark can."""
        path = self.path(name).removeprefix("file://")
        if self.format != PARQUET:
            return None
        is_local = str(self.spark.sparkContext.master).startswith("local") and "://" not in path and not path.startswith("file:")
        return Path(path) if is_local else None

    def write(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """Replace a table, and return the stored one."""
        _check(name, frame, schema)
        frame.write.format(self.format).mode("overwrite").save(self.path(name))
        return self.read(name, schema)

    def append(self, name: str, frame: DataFrame, schema: StructType, part: int) -> None:
        """Add rows as the part of this number, or replace that part: a repeated micro-batch duplicates no row."""
        _check(name, frame, schema)
        if self.format == PARQUET:
            frame.write.mode("overwrite").parquet(f"{self.path(name)}/{PART}={part}")
            return
        # The rows of other formats may not be written into the folder of a part: the format replaces its part itself.
        rows = frame.withColumn(PART, F.lit(part)).write.format(self.format).mode("overwrite")
        rows.option("partitionOverwriteMode", "dynamic").partitionBy(PART).save(self.path(name))

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A stored table, written whole or in parts; empty where there is none."""
        file_system, location = self._locate(self.path(name))
        if not file_system.exists(location):
            return self.spark.createDataFrame([], schema)
        # Delta knows its own schema, and refuses another.
        reader = self.spark.read.format(self.format)
        return (reader if self.format == DELTA else reader.schema(schema)).load(self.path(name)).select(*schema.fieldNames())

    def remove(self, path: str) -> None:
        """Delete a table, or a checkpoint, by its path; nothing where there is none."""
        file_system, location = self._locate(path)
        file_system.delete(location, True)

    def _locate(self, path: str) -> tuple[Any, Any]:
        """Hadoop's file system and path for any kind of storage; PySpark has no API for them."""
        context: Any = self.spark.sparkContext
        location = context._jvm.org.apache.hadoop.fs.Path(path)
        return location.getFileSystem(context._jsc.hadoopConfiguration()), location


def _check(name: str, frame: DataFrame, schema: StructType) -> None:
    assert _columns(frame.schema) == _columns(schema), f"table {name}: {frame.schema.simpleString()} is not {schema.simpleString()}"


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
