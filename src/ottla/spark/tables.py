"""Tables as folders of Parquet files: the one form in which pipelines keep what they made.

It writes a table whole and checks its columns first; it knows nothing of what is in them.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


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
        assert _columns(frame.schema) == _columns(schema), f"table {name}: {frame.schema.simpleString()} is not {schema.simpleString()}"
        frame.write.mode("overwrite").parquet(self.path(name))
        return self.read(name, schema)

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A table that was written before."""
        return self.spark.read.schema(schema).parquet(self.path(name))


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
