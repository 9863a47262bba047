"""What the target holds: a read of its headers, in the workers, summed up by parts of its partitions.

Nothing else is remembered between runs. The same read verifies a copy, and finds where each group continues.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from ottla.spark.migration.checksums import Checksum, hashes
from ottla.spark.migration.reading import read, task_numbers
from ottla.spark.migration.routing import TARGET
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.ranges import OffsetRange
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
        StructField("start", LongType()),
        StructField("end", LongType()),
        StructField("records", LongType()),
        StructField("lowest", _LONGS),
        StructField("highest", _LONGS),
        StructField("counts", _LONGS),
        StructField("records_there", _LONGS),
        StructField("hashes", _LONGS),
        StructField("foreign", LongType()),
        StructField("disordered", LongType()),
        StructField("first_unread", _LONGS),
        StructField("read", _LONGS),
    ]
)
"""The fields of Summary; `records_there` and `hashes` are its checksums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A part of a target partition: its offsets from `start` to before `end`.

    By source partition: `lowest` and `highest` source offset (NOTHING: no record), how many records (`counts`), and the checksums of the
    source offsets that the source still has. `foreign`, `disordered`: the offset of the first record that is not of this migration, and of
    the first one whose source offset is not above those before it from the same source partition; NOTHING without such a record. By group,
    in their order: `first_unread`, the offset of the first record that the group has not read (NOTHING: it has read all), and how many it
    has `read`.
    """

    partition: int
    start: int
    end: int
    records: int
    lowest: tuple[int, ...]
    highest: tuple[int, ...]
    counts: tuple[int, ...]
    checksums: tuple[Checksum, ...]
    foreign: int = NOTHING
    disordered: int = NOTHING
    first_unread: tuple[int, ...] = ()
    read: tuple[int, ...] = ()


def summary_of(row: Any) -> Summary:
    """A row of SUMMARIES."""
    checksums = (Checksum(records, hashes % 2**64) for records, hashes in zip(row["records_there"], row["hashes"], strict=True))
    lists: dict[str, Any] = {name: tuple(row[name]) for name in ("lowest", "highest", "counts", "first_unread", "read")}
    numbers = {name: row[name] for name in ("start", "end", "records", "foreign", "disordered")}
    return Summary(partition=row[TARGET], checksums=tuple(checksums), **lists, **numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReader:
    """For `mapInArrow` over numbers of `tasks`: a row of SUMMARIES for each range of these. Raises as `read` does.

    `starts`: where each source partition starts; records before that are in no checksum. `committed`: of each group, the committed offset
    in every source partition.
    """

    settings: ReadSettings
    tasks: tuple[ReadTask, ...]
    source: str
    starts: tuple[int, ...]
    committed: tuple[tuple[int, ...], ...] = field(default=())

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for number in task_numbers(numbers):
            task = self.tasks[number]
            tallies = {each: Tally(self.starts, self.committed) for each in task.ranges}
            for batch in read(self.settings, task):
                tallies[_range_of(batch, task)].add(self.source, batch)
            rows = [(each.partition, each.start, each.end, *tally.row()) for each, tally in tallies.items()]
            arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _arrow_types(), strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=SUMMARIES.fieldNames())


def _range_of(batch: "pa.RecordBatch", task: ReadTask) -> OffsetRange:
    """The range of the task that these records are from."""
    partition, offset = (batch.column(name)[0].as_py() for name in ("partition", "offset"))
    return next(each for each in task.ranges if each.partition == partition and each.start <= offset < each.end)


def _arrow_types() -> "list[pa.DataType]":
    """Of the fields of SUMMARIES."""
    import pyarrow as pa

    kinds = {IntegerType(): pa.int32(), LongType(): pa.int64(), _LONGS: pa.list_(pa.int64())}
    return [kinds[each.dataType] for each in SUMMARIES]


class Tally:
    """Sums up a part of a target partition, whose records are added in the order of their offsets."""

    def __init__(self, starts: tuple[int, ...], committed: tuple[tuple[int, ...], ...]) -> None:
        import numpy as np

        self._records = 0
        self._starts = np.array(starts, np.int64)
        self._lowest, self._highest = (np.full(len(starts), NOTHING, np.int64) for _ in range(2))
        self._counts, self._there, self._hashes = (np.zeros(len(starts), np.int64) for _ in range(3))
        self._foreign = self._disordered = NOTHING
        self._committed = [np.array(each, np.int64) for each in committed]
        self._first_unread = [NOTHING] * len(committed)
        self._read = [0] * len(committed)

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
        self._add_offsets(at, partitions, offsets)
        self._add_checksums(partitions, offsets)
        for group, committed in enumerate(self._committed):
            is_read = offsets < committed[partitions]
            if self._first_unread[group] == NOTHING and not is_read.all():
                self._first_unread[group] = int(at[np.argmin(is_read)])
            self._read[group] += int(np.count_nonzero(is_read))

    def _add_offsets(self, at: "np.ndarray[Any, Any]", partitions: "np.ndarray[Any, Any]", offsets: "np.ndarray[Any, Any]") -> None:
        import numpy as np

        order = np.argsort(partitions, kind="stable")
        partitions, offsets = partitions[order], offsets[order]
        is_first = np.r_[True, partitions[1:] != partitions[:-1]][: len(order)]
        before = np.where(is_first, self._highest[partitions], np.r_[NOTHING, offsets[:-1]][: len(order)])
        disordered = offsets <= before
        if self._disordered == NOTHING and disordered.any():
            self._disordered = int(at[order][disordered].min())
        is_lowest = is_first & (self._lowest[partitions] == NOTHING)
        self._lowest[partitions[is_lowest]] = offsets[is_lowest]
        np.maximum.at(self._highest, partitions, offsets)
        self._counts += np.bincount(partitions, minlength=len(self._counts))

    def _add_checksums(self, partitions: "np.ndarray[Any, Any]", offsets: "np.ndarray[Any, Any]") -> None:
        import numpy as np

        is_there = offsets >= self._starts[partitions]
        if not is_there.all():
            partitions, offsets = partitions[is_there], offsets[is_there]
        self._there += np.bincount(partitions, minlength=len(self._there))
        np.add.at(self._hashes, partitions, hashes(offsets))

    def row(self) -> tuple[Any, ...]:
        """The fields of SUMMARIES behind the offsets."""
        by_source = (each.tolist() for each in (self._lowest, self._highest, self._counts, self._there, self._hashes))
        return (self._records, *by_source, self._foreign, self._disordered, self._first_unread, self._read)
