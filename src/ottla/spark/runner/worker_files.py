"""Tables of Parquet files that workers write while they read: the rows never pass through Spark's JVM, which takes most of the time.

For pipelines with `in_arrow`, on one machine. Each task writes a file of each table, under a hidden name until it is whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

ROWS_MAX: Final = 250_000
"""Rows of a row group, about: so many are in a worker's memory."""

TEXTS: Final = ("group", "topic", "metadata", "topic_id", "partition", "record_type", "value_version", "leader_epoch")
"""Columns of few values, which are stored by dictionary."""

InArrow = Callable[["Iterable[RecordBatch]"], "Iterator[tuple[str, RecordBatch]]"]


class Reader(Protocol):
    """A reader of Spark's: it plans tasks in the driver, and reads them in the workers."""

    def partitions(self) -> Any:
        """The tasks."""

    def read(self, partition: Any) -> "Iterator[RecordBatch]":
        """The rows of one task."""


def write_in_workers(spark: "SparkSession", reader: Reader, in_arrow: InArrow, folders: Mapping[str, Path]) -> None:
    """Read all tasks, and write each table to its folder, which must be empty. Raises what Spark raises."""
    for folder in folders.values():
        folder.mkdir(parents=True)
    tasks = list(enumerate(reader.partitions()))
    work = partial(write_task, reader=reader, in_arrow=in_arrow, folders=folders)
    spark.sparkContext.parallelize(tasks, max(1, len(tasks))).foreach(work)


def write_task(task: tuple[int, Any], *, reader: Reader, in_arrow: InArrow, folders: Mapping[str, Path]) -> None:
    """Write the files of one task; in a Python worker. A repeated task replaces them."""
    import pyarrow as pa

    # Arrow's own allocator gives every freed column back to the system: that took as long as all the rest.
    pa.set_memory_pool(pa.system_memory_pool())
    number, partition = task
    files = {name: _TableFile(folder / f"part-{number:05}.parquet") for name, folder in folders.items()}
    for name, batch in in_arrow(reader.read(partition)):
        files[name].add(batch)
    for file in files.values():
        file.finish()


class _TableFile:
    """A Parquet file that is written in row groups."""

    def __init__(self, path: Path) -> None:
        self._path, self._hidden = path, path.with_name(f".{path.name}")
        self._writer: Any = None
        self._batches: list[RecordBatch] = []
        self._rows = 0

    def add(self, batch: "RecordBatch") -> None:
        """Add rows."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS_MAX:
            self._flush()

    def finish(self) -> None:
        """Write what is left, and give the file its name; no file without rows."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self._hidden.rename(self._path)

    def _flush(self) -> None:
        if not self._batches:
            return
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        rows = pa.Table.from_batches(self._batches)
        if self._writer is None:
            few = [name for name in rows.schema.names if name in TEXTS]
            self._writer = ParquetWriter(self._hidden, rows.schema, use_dictionary=few, compression="snappy")
        self._writer.write_table(rows)
        self._batches, self._rows = [], 0
