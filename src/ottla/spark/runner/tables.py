"""Tables in which pipelines store their outputs: what every kind of them can do, and those that are folders of files.

A table is written whole, or in parts: the rows of one micro-batch, which a repeated micro-batch replaces. `catalog_tables` has those of a
catalog.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.runner import stored_files

PARQUET, DELTA = "parquet", "delta"
PART: Final = "part_id"
"""The extra column of a table that was written in parts. Where tables are folders, Spark makes it from the folder's name."""


class TableError(ValueError):
    """A table that cannot be written: the message says which, why, and what to do."""


class TableStore(Protocol):
    """Where a pipeline's tables are, by their names in the pipeline."""

    @property
    def spark(self) -> SparkSession:
        """The session that reads and writes them."""

    def path(self, name: str) -> str:
        """Where a table is: its path, or its name in a catalog."""

    def checkpoint(self, name: str) -> str | None:
        """The path of the checkpoint of a stream whose first output is `name`; None where none was given."""

    def folder(self, name: str) -> Path | None:
        """The folder of a table where this machine's workers can write it themselves; None where only Spark can."""

    def write(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """Replace a table, and return the stored one. Raises TableError."""

    def clear(self, name: str, schema: StructType) -> None:
        """Delete all rows, and the parts with them, since a stream begins. Raises TableError."""

    def append(self, name: str, frame: DataFrame, schema: StructType, part: int) -> None:
        """Add rows as the part of this number, or replace that part: a repeated micro-batch duplicates no row. Raises TableError."""

    def check_continued(self, name: str) -> None:
        """Raise TableError unless the table has the parts of the stream that the checkpoint continues."""

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A stored table, written whole or in parts, without the numbers of parts; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables as folders under `directory`, a path or an address that Spark can write.

    `format`: a format that Spark can replace partitions of, such as orc or delta (with Delta's jars in the session).
    """

    spark: SparkSession
    directory: str
    format: str = PARQUET

    def path(self, name: str) -> str:
        """The path of a table."""
        return f"{self.directory.rstrip('/')}/{name}"

    def checkpoint(self, name: str) -> str:
        """The path of a checkpoint: beside the tables."""
        return self.path(f"_checkpoint_{name}")

    def folder(self, name: str) -> Path | None:
        """The folder of a table where this machine's workers can write it themselves; None where only Spark can."""
        path = self.path(name).removeprefix("file://")
        if self.format != PARQUET:
            return None
        is_local = str(self.spark.sparkContext.master).startswith("local") and "://" not in path and not path.startswith("file:")
        return Path(path) if is_local else None

    def write(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """Replace a table, and return the stored one."""
        check_columns(name, frame, schema)
        frame.write.format(self.format).mode("overwrite").save(self.path(name))
        return self.read(name, schema)

    def clear(self, name: str, schema: StructType) -> None:
        """Delete the folder."""
        stored_files.remove(self.spark, self.path(name))

    def append(self, name: str, frame: DataFrame, schema: StructType, part: int) -> None:
        """Add rows as the part of this number, or replace that part: a repeated micro-batch duplicates no row."""
        check_columns(name, frame, schema)
        if self.format == PARQUET:
            frame.write.mode("overwrite").parquet(f"{self.path(name)}/{PART}={part}")
            return
        # The rows of other formats may not be written into the folder of a part: the format replaces its part itself.
        rows = frame.withColumn(PART, F.lit(part)).write.format(self.format).mode("overwrite")
        rows.option("partitionOverwriteMode", "dynamic").partitionBy(PART).save(self.path(name))

    def check_continued(self, name: str) -> None:
        """Raise TableError where the folder was deleted, and the checkpoint was not."""
        if not stored_files.exists(self.spark, self.path(name)):
            raise TableError(
                f"there is no table {self.path(name)}, and the stream would continue behind its rows:"
                f" delete the folders _checkpoint_* in {self.directory}, to start from the beginning"
            )

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A stored table, written whole or in parts; empty where there is none."""
        if not stored_files.exists(self.spark, self.path(name)):
            return self.spark.createDataFrame([], schema)
        # Delta knows its own schema, and refuses another.
        reader = self.spark.read.format(self.format)
        return (reader if self.format == DELTA else reader.schema(schema)).load(self.path(name)).select(*schema.fieldNames())


def check_columns(name: str, frame: DataFrame, schema: StructType) -> None:
    """Assert that the rows of a table have the columns of its schema."""
    assert columns(frame.schema) == columns(schema), f"table {name}: {frame.schema.simpleString()} is not {schema.simpleString()}"


def columns(schema: StructType) -> list[tuple[str, str]]:
    """Names and types, in their order."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
