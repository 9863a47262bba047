"""What the target holds already: source positions in its records, and so what is left to copy, and where each group continues.

It is found by a read of the target's headers, in the workers, summed up by parts of its partitions; nothing else is remembered between
runs, and the same read verifies a copy. Each part is read once, when it is new. Source offsets rise from part to part, so that a group's
committed offsets say which parts it has read as a whole, and which not at all: to place it, only those have to be read again where it is
between two records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from ottla.spark.migration.chunks import TARGET, Checksum, add_up, hashes, read, task_numbers
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER, Extent, MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.planning import OffsetRange, ReadTask

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Longs = np.ndarray[Any, np.dtype[np.int64]]


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

        from ottla.spark.migration.source_positions import FOREIGN, source_positions

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


RECORDS_MAX: Final = 100_000
"""The records of a part: what is read again of each target partition to place a group."""


class Place(NamedTuple):
    """Groups in a target partition: the offset of the first record that each has not read (NOTHING: none), and how many it reads again."""

    first_unread: tuple[int, ...]
    replayed: tuple[int, ...]


@dataclass(slots=True)
class Part:
    """Offsets of a target partition; by source partition, the highest source offset up to its end, and the number of its records."""

    extent: Extent
    highest: "Longs"
    counts: "Longs"


class Contents:
    """The parts of a target, whose records are those of `source_partitions`. `records_max`: of a part."""

    def __init__(self, target: str, *, source_partitions: int, records_max: int = RECORDS_MAX) -> None:
        self._target = target
        self._source_partitions = source_partitions
        self._records_max = records_max
        self._parts: dict[int, list[Part]] = {}
        self._records: dict[int, int] = {}
        self._checksums: dict[int, Checksum] = {}

    def new_parts(self, held: Mapping[int, Extent]) -> dict[int, list[Extent]]:
        """What is in the target now and not added yet, by target partition, in parts."""
        found = {}
        for partition, extent in held.items():
            start = max(extent.start, self._end(partition))
            cuts = [*range(start, extent.end, self._records_max), extent.end]
            if start < extent.end:
                found[partition] = [Extent(*each) for each in pairwise(cuts)]
        return found

    def add(self, summaries: Iterable[Summary]) -> None:
        """Add what was read of new parts. Raises MigrationError for records of others, and for those that come twice."""
        for each in sorted(summaries, key=lambda each: (each.partition, each.start)):
            self._check(each)
            self._add(each)

    def records(self, partition: int) -> int:
        """The number of records in a target partition."""
        return self._records.get(partition, 0)

    def copied(self) -> dict[int, tuple[int, ...]]:
        """By source partition: the highest source offset in each target partition that has records."""
        ends = [self._highest(partition).tolist() for partition in sorted(self._parts)]
        return {source: tuple(each[source] for each in ends) for source in range(self._source_partitions)} if ends else {}

    def checksums(self) -> dict[int, Checksum]:
        """By source partition: the checksum of its offsets in the target."""
        return dict(self._checksums)

    def unplaced(self, committed: Sequence[Sequence[int]], known: Iterable[Summary]) -> dict[int, list[Extent]]:
        """The parts to read again to place groups with these committed offsets; not those of which summaries are `known`."""
        found: dict[int, list[Extent]] = {}
        there = _by_extent(known)
        for partition, parts in self._parts.items():
            between = [part.extent for number, part in enumerate(parts) if self._is_between(partition, number, committed)]
            missing = [extent for extent in between if (partition, extent) not in there]
            if missing:
                found[partition] = missing
        return found

    def places(self, committed: Sequence[Sequence[int]], known: Iterable[Summary]) -> dict[int, Place]:
        """Where groups are in each target partition that has records. `known`: summaries of the unplaced parts at least."""
        read_again = _by_extent(known)
        return {
            partition: Place(*zip(*(self._place(partition, group, read_again, offsets) for group, offsets in enumerate(committed))))
            if committed
            else Place((), ())
            for partition in self._parts
        }

    def _place(self, partition: int, group: int, known: Mapping[tuple[int, Extent], Summary], committed: Sequence[int]) -> tuple[int, int]:
        """The offset of the first unread record, and how many read ones are behind it: all but those before, and offsets have no gaps."""
        import numpy as np

        first_unread, read = NOTHING, 0
        for number, part in enumerate(self._parts[partition]):
            if self._is_between(partition, number, [committed]):
                summary = known[partition, part.extent]
                read += summary.read[group]
                first_unread = summary.first_unread[group] if first_unread == NOTHING else first_unread
            else:
                read += int(part.counts[part.highest < np.array(committed, np.int64)].sum())
        before = first_unread - self._parts[partition][0].extent.start
        return first_unread, 0 if first_unread == NOTHING else read - before

    def _is_between(self, partition: int, number: int, committed: Sequence[Sequence[int]]) -> bool:
        """Whether a part has the first unread record of some source partition."""
        import numpy as np

        part, before = self._parts[partition][number], self._highest_before(partition, number)
        return any(bool(((before < offsets) & (offsets <= part.highest)).any()) for offsets in np.array(committed, np.int64))

    def _check(self, each: Summary) -> None:
        if each.foreign != NOTHING:
            raise MigrationError(
                f"{self._target}-{each.partition} has a record at offset {each.foreign} that is not of this migration: name a topic that is"
                " empty or does not exist"
            )
        where = f"at offset {each.disordered}"
        lowest, before = each.lowest, self._highest(each.partition).tolist()
        if each.disordered == NOTHING and any(low != NOTHING and low <= high for low, high in zip(lowest, before, strict=True)):
            where = f"between offsets {each.start} and {each.end}"
        elif each.disordered == NOTHING:
            return
        raise MigrationError(
            f"{self._target}-{each.partition} has a record {where} that was copied before, or is out of order: another migration ran at the"
            f" same time. Delete {self._target}, and run the same command again"
        )

    def _add(self, each: Summary) -> None:
        import numpy as np

        parts = self._parts.setdefault(each.partition, [])
        highest = np.maximum(self._highest(each.partition), np.array(each.highest, np.int64))
        counts = np.array(each.counts, np.int64)
        if parts and each.end - parts[-1].extent.start <= self._records_max:
            counts = counts + parts[-1].counts
            parts[-1] = Part(Extent(parts[-1].extent.start, each.end), highest, counts)
        else:
            parts.append(Part(Extent(each.start, each.end), highest, counts))
        self._records[each.partition] = self.records(each.partition) + each.records
        add_up(self._checksums, dict(enumerate(each.checksums)))

    def _end(self, partition: int) -> int:
        parts = self._parts.get(partition)
        return parts[-1].extent.end if parts else 0

    def _highest(self, partition: int) -> "Longs":
        """The highest source offset by source partition, in the whole target partition."""
        return self._highest_before(partition, len(self._parts.get(partition, ())))

    def _highest_before(self, partition: int, number: int) -> "Longs":
        import numpy as np

        return self._parts[partition][number - 1].highest if number else np.full(self._source_partitions, NOTHING, np.int64)


def _by_extent(summaries: Iterable[Summary]) -> dict[tuple[int, Extent], Summary]:
    return {(each.partition, Extent(each.start, each.end)): each for each in summaries}
