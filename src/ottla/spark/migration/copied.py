"""What the target holds already: a read of its headers, in the workers, summed up by target partition.

Nothing else is remembered between runs. The same read verifies a copy, and finds where each group continues.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from ottla.spark.migration.reading import read, task_numbers
from ottla.spark.migration.routing import TARGET
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.tasks import ReadTask

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

COLUMNS: Final = ("partition", "offset", "headers")
"""The columns that are read from the target."""

_LONGS: Final = ArrayType(LongType())
SUMMARIES: Final = StructType(
    [
        StructField(TARGET, IntegerType()),
        StructField("records", LongType()),
        StructField("highest", _LONGS),
        StructField("foreign", LongType()),
        StructField("disordered", LongType()),
        StructField("first_unread", _LONGS),
        StructField("replayed", _LONGS),
    ]
)
"""The fields of Summary, but for `partition`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A target partition. By source partition: `highest`, the highest source offset (NOTHING: no record).

    `foreign`, `disordered`: the offset of the first record that is not of this migration, and of the first one whose source offset is not
    above those before it from the same source partition; NOTHING without such a record. By group, in their order: `first_unread`, the
    offset of the first record that the group has not read (NOTHING: it has read all), `replayed`: how many behind that it has read.
    """

    partition: int
    records: int
    highest: tuple[int, ...]
    foreign: int = NOTHING
    disordered: int = NOTHING
    first_unread: tuple[int, ...] = ()
    replayed: tuple[int, ...] = ()


def summary_of(row: Any) -> Summary:
    """A row of SUMMARIES."""
    return Summary(
        partition=row[TARGET],
        records=row["records"],
        highest=tuple(row["highest"]),
        foreign=row["foreign"],
        disordered=row["disordered"],
        first_unread=tuple(row["first_unread"]),
        replayed=tuple(row["replayed"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReader:
    """For `mapInArrow` over numbers of `tasks`, each of whole target partitions: rows of SUMMARIES. Raises as `read` does.

    `committed`: of each group, the committed offset in every source partition.
    """

    settings: ReadSettings
    tasks: tuple[ReadTask, ...]
    source: str
    source_partitions: int
    committed: tuple[tuple[int, ...], ...] = field(default=())

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for number in task_numbers(numbers):
            task = self.tasks[number]
            tallies = {each.partition: Tally(self.source_partitions, self.committed) for each in task.ranges}
            for batch in read(self.settings, task):
                tallies[batch.column("partition")[0].as_py()].add(self.source, batch)
            types = [pa.int32(), pa.int64(), pa.list_(pa.int64()), pa.int64(), pa.int64(), pa.list_(pa.int64()), pa.list_(pa.int64())]
            rows = [(partition, *tally.row()) for partition, tally in tallies.items()]
            arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=SUMMARIES.fieldNames())


class Tally:
    """Sums up a target partition, whose records are added in the order of their offsets."""

    def __init__(self, source_partitions: int, committed: tuple[tuple[int, ...], ...]) -> None:
        import numpy as np

        self._records = 0
        self._highest = np.full(source_partitions, NOTHING, np.int64)
        self._foreign = self._disordered = NOTHING
        self._committed = [np.array(each, np.int64) for each in committed]
        self._first_unread = [NOTHING] * len(committed)
        self._replayed = [0] * len(committed)

    def add(self, source: str, batch: "pa.RecordBatch") -> None:
        """Rows with the columns offset and headers."""
        import numpy as np

        from ottla.columnar.source_positions import FOREIGN, source_positions

        at = np.asarray(batch.column("offset"))
        partitions, offsets = source_positions(batch.column("headers"), SOURCE_HEADER, source)
        foreign = (partitions == FOREIGN) | (partitions >= len(self._highest))
        if foreign.any():
            self._foreign = int(at[foreign][0]) if self._foreign == NOTHING else self._foreign
            at, partitions, offsets = at[~foreign], partitions[~foreign], offsets[~foreign]
        self._records += len(at)
        self._check_order(at, partitions, offsets)
        for group, committed in enumerate(self._committed):
            is_read = offsets < committed[partitions]
            if self._first_unread[group] == NOTHING:
                if is_read.all():
                    continue
                first = int(np.argmin(is_read))
                self._first_unread[group] = int(at[first])
                is_read = is_read[first:]
            self._replayed[group] += int(np.count_nonzero(is_read))

    def _check_order(self, at: "np.ndarray[Any, Any]", partitions: "np.ndarray[Any, Any]", offsets: "np.ndarray[Any, Any]") -> None:
        import numpy as np

        order = np.argsort(partitions, kind="stable")
        partitions, offsets = partitions[order], offsets[order]
        is_first = np.r_[True, partitions[1:] != partitions[:-1]][: len(order)]
        before = np.where(is_first, self._highest[partitions], np.r_[NOTHING, offsets[:-1]][: len(order)])
        disordered = offsets <= before
        if self._disordered == NOTHING and disordered.any():
            self._disordered = int(at[order][disordered].min())
        np.maximum.at(self._highest, partitions, offsets)

    def row(self) -> tuple[Any, ...]:
        """The fields of SUMMARIES behind the partition."""
        return (self._records, self._highest.tolist(), self._foreign, self._disordered, self._first_unread, self._replayed)


def copied_by_source(summaries: Mapping[int, Summary], source_partitions: int) -> dict[int, tuple[int, ...]]:
    """By source partition: the highest source offset in each target partition."""
    ordered = [summaries[partition] for partition in sorted(summaries)]
    return {source: tuple(each.highest[source] for each in ordered) for source in range(source_partitions)}
