"""Tables as folders of Parquet files: the one form in which pipelines keep what they made.

It writes a table whole, or adds the rows of one micro-batch in a folder of their own, and checks its columns first; it knows nothing of
what is in them.
"""

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

PART: Final = "part_id"
"""The column that a table has besides its own where it was written part by part: Spark makes it of the folder's name."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables under `directory`, a path or an address that Spark can write."""

    spark: SparkSession
    directory: str

    def path(self, name: str) -> str:
        """Where a table lies."""
        return f"{self.directory.rstrip('/')}/{name}"

    def write(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """Replace a table, and hand back what was written."""
        _check(name, frame, schema)
        frame.write.mode("overwrite").parquet(self.path(name))
        return self.read(name, schema)

    def append(self, name: str, frame: DataFrame, schema: StructType, part: int) -> None:
        """Add rows as the part of this number. Written again, a part replaces itself: a micro-batch that is repeated doubles nothing."""
        _check(name, frame, schema)
        frame.write.mode("overwrite").parquet(f"{self.path(name)}/{PART}={part}")

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A table that was written before, in one go or in parts; one that was not is empty."""
        files, place = self._at(self.path(name))
        if not files.exists(place):
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(self.path(name)).select(*schema.fieldNames())

    def remove(self, path: str) -> None:
        """Delete a table, or a checkpoint, by its path; nothing where there is none."""
        files, place = self._at(path)
        files.delete(place, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        """Spark's own view of the place, which may be on any kind of storage; PySpark has no face for it."""
        context: Any = self.spark.sparkContext
        place = context._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(context._jsc.hadoopConfiguration()), place


def _check(name: str, frame: DataFrame, schema: StructType) -> None:
    assert _columns(frame.schema) == _columns(schema), f"table {name}: {frame.schema.simpleString()} is not {schema.simpleString()}"


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
