"""Where pipelines store their tables: files of a directory on any storage that Spark can write to, or tables of a catalog.

A table is written whole, or in parts: the rows of one micro-batch, which a repeated micro-batch replaces. PySpark has no API for files and
folders.

Tables of a catalog may be Spark's own, Hive's, Iceberg's, Delta's or Unity's. Existing ones are written into, never dropped: their
location, owner and permissions stay. A table to which a stream appends is partitioned by the number of the part, and has the path of the
stream's checkpoint as a property.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from ottla.spark.pipelines import Pipeline


def is_stored(spark: SparkSession, path: str) -> bool:
    """Whether there is a file or folder at this path or URL."""
    file_system, location = _locate(spark, path)
    return bool(file_system.exists(location))


def remove_stored(spark: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing where there is none."""
    file_system, location = _locate(spark, path)
    file_system.delete(location, True)


def _locate(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system and path."""
    context: Any = spark.sparkContext
    location = context._jvm.org.apache.hadoop.fs.Path(path)
    return location.getFileSystem(context._jsc.hadoopConfiguration()), location


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
        remove_stored(self.spark, self.path(name))

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
        if not is_stored(self.spark, self.path(name)):
            raise TableError(
                f"there is no table {self.path(name)}, and the stream would continue behind its rows:"
                f" delete the folders _checkpoint_* in {self.directory}, to start from the beginning"
            )

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A stored table, written whole or in parts; empty where there is none."""
        if not is_stored(self.spark, self.path(name)):
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


CHECKPOINT: Final = "ottla.checkpoint"
"""The property of a table with the checkpoint whose micro-batches are its parts; empty after a batch."""

_SPARKS_OWN: Final = "spark_catalog"
_OVERWRITING: Final = "spark.sql.sources.partitionOverwriteMode"


def table_names(table: str, pipeline: Pipeline) -> dict[str, str]:
    """The names of a pipeline's tables where the first output is `table`, CATALOG.SCHEMA.TABLE; SCHEMA.TABLE and TABLE are names as well.

    The others are in the same schema and begin with it: beside prod_lag, lag_history is prod_lag_history, and end_offset_history is
    prod_lag_end_offset_history. Raises TableError.
    """
    parts = table.split(".")
    if not all(parts) or set("`{}") & set(table):
        raise TableError(f"{table!r} is no name of a table: write CATALOG.SCHEMA.TABLE, or SCHEMA.TABLE in Spark's present catalog")
    first = next(iter(pipeline.outputs))
    others = dict.fromkeys(name for name in (*pipeline.outputs, *pipeline.appended) if name != first)
    return {first: table, **{name: f"{table}_{name.removeprefix(f'{first}_')}" for name in others}}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTables:
    """A pipeline's tables; the first output is `table`, see `table_names`.

    `format` is that of tables which do not exist yet. `checkpoints` is a folder for the checkpoints of streams; None: only batches run.
    """

    spark: SparkSession
    pipeline: Pipeline
    table: str
    format: str = PARQUET
    checkpoints: str | None = None

    @property
    def outlives_session(self) -> bool:
        """Whether the catalog remembers tables after the session: Spark's own is in memory unless it is configured."""
        catalog = self._catalog()
        plugin = self.spark.conf.get(f"spark.sql.catalog.{_SPARKS_OWN}", None) or ""
        if catalog != _SPARKS_OWN or (plugin and ".delta." not in plugin):
            return True
        return self.spark.conf.get("spark.sql.catalogImplementation") != "in-memory"

    def check(self) -> None:
        """Raise TableError where the catalog or the schema does not exist."""
        table_names(self.table, self.pipeline)
        catalog, schema = self._catalog(), self.table.split(".")[:-1]
        if catalog != _SPARKS_OWN and not self.spark.conf.get(f"spark.sql.catalog.{catalog}", None):
            raise TableError(
                f"there is no catalog {catalog}: configure it in spark-defaults.conf, with spark.sql.catalog.{catalog} and its jars in"
                " spark.jars.packages"
            )
        try:
            is_there = not schema or self.spark.catalog.databaseExists(_quoted(".".join(schema)))
        except Py4JJavaError as error:
            raise TableError(f"the catalog {catalog} cannot be used: {error.java_exception.getMessage()}") from error
        if not is_there:
            raise TableError(f"there is no schema {'.'.join(schema)}: create it first, CREATE SCHEMA {'.'.join(schema)}")

    def path(self, name: str) -> str:
        """The name of a table in the catalog."""
        return table_names(self.table, self.pipeline)[name]

    def checkpoint(self, name: str) -> str | None:
        """The path of a checkpoint: in `checkpoints`, by the table's name."""
        return None if self.checkpoints is None else f"{self.checkpoints.rstrip('/')}/_checkpoint_{self.path(name)}"

    def folder(self, name: str) -> Path | None:
        """None: only Spark writes tables of catalogs."""
        return None

    def write(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """Replace the rows of a table, and return the stored ones; those of a table in parts become part 0."""
        check_columns(name, frame, schema)
        self._create(name, schema)
        if name in self.pipeline.appended:
            # First: without the property no stream continues behind rows that are not its own, whatever happens from here on.
            self._mark(name, "")
            frame = frame.withColumn(PART, F.lit(0).cast(LongType()))
        self._insert(name, frame, "")
        return self.read(name, schema)

    def clear(self, name: str, schema: StructType) -> None:
        """Delete all rows, and write down whose parts will come."""
        self._create(name, schema)
        self._insert(name, self.spark.createDataFrame([], self._stored(name, schema)), "")
        self._mark(name, self._owner)

    def append(self, name: str, frame: DataFrame, schema: StructType, part: int) -> None:
        """Add rows as the part of this number, or replace that part: a repeated micro-batch duplicates no row."""
        check_columns(name, frame, schema)
        self._create(name, schema)
        self._insert(name, frame, f"PARTITION ({PART} = {part})")

    def check_continued(self, name: str) -> None:
        """Raise TableError unless the last rows of the table are parts of the checkpoint's stream."""
        if not self._exists(name) or self._checkpoint_of(name) != self._owner:
            raise TableError(
                f"the table {self.path(name)} was dropped, or written by another run, since the stream of {self._owner} wrote it:"
                " delete that folder, to start from the beginning"
            )

    def read(self, name: str, schema: StructType) -> DataFrame:
        """A stored table, without the numbers of parts; empty where there is none."""
        if not self._exists(name):
            return self.spark.createDataFrame([], schema)
        # A stream's micro-batches are written in a session of their own, which does not tell this one what files there are.
        self.spark.catalog.refreshTable(self._identifier(name))
        return self.spark.table(self._identifier(name)).select(*schema.fieldNames())

    @property
    def _owner(self) -> str:
        return self.checkpoint(next(iter(self.pipeline.outputs))) or ""

    def _catalog(self) -> str:
        parts = self.table.split(".")
        return parts[0] if len(parts) > 2 else self.spark.catalog.currentCatalog()

    def _identifier(self, name: str) -> str:
        return _quoted(self.path(name))

    def _exists(self, name: str) -> bool:
        return self.spark.catalog.tableExists(self._identifier(name))

    def _stored(self, name: str, schema: StructType) -> StructType:
        return StructType([*schema.fields]).add(PART, LongType()) if name in self.pipeline.appended else schema

    def _create(self, name: str, schema: StructType) -> None:
        """Create a table that does not exist; check the columns of one that does."""
        wanted = self._stored(name, schema)
        if self._exists(name):
            found = self.spark.table(self._identifier(name)).schema
            if columns(found) != columns(wanted):
                raise TableError(
                    f"the table {self.path(name)} has the columns {found.simpleString()}, not {wanted.simpleString()}: drop it, or choose"
                    " another name"
                )
            return
        parts = f" PARTITIONED BY ({PART})" if name in self.pipeline.appended else ""
        self.spark.sql(f"CREATE TABLE {self._identifier(name)} ({wanted.toDDL()}) USING {_quoted(self.format)}{parts}")

    def _insert(self, name: str, frame: DataFrame, part: str) -> None:
        """Replace a part of the table, or all of it."""
        # The frame's own session: a micro-batch has another one.
        session = frame.sparkSession
        with _whole_parts(session):
            session.sql(f"INSERT OVERWRITE TABLE {self._identifier(name)} {part} SELECT * FROM {{rows}}", rows=frame)

    def _mark(self, name: str, checkpoint: str) -> None:
        if self._checkpoint_of(name) != checkpoint:
            text = checkpoint.replace("\\", "\\\\").replace("'", "\\'")
            self.spark.sql(f"ALTER TABLE {self._identifier(name)} SET TBLPROPERTIES ('{CHECKPOINT}' = '{text}')")

    def _checkpoint_of(self, name: str) -> str:
        properties = self.spark.sql(f"SHOW TBLPROPERTIES {self._identifier(name)}").collect()
        return next((str(row["value"]) for row in properties if row["key"] == CHECKPOINT), "")


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


@contextmanager
def _whole_parts(session: SparkSession) -> Iterator[None]:
    """Let INSERT OVERWRITE replace all that it names: in Spark's other mode it leaves parts for which there are no rows."""
    before = session.conf.get(_OVERWRITING) or "static"
    session.conf.set(_OVERWRITING, "static")
    try:
        yield
    finally:
        session.conf.set(_OVERWRITING, before)
