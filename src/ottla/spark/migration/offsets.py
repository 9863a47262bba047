"""The groups' offsets on the target of a migration: what they read again is forecast, then carried over.

Of each group it knows the offsets in the source, whether it has members, where it continues in the target, and how many records it reads
again there. A forecast writes nothing.

A forecast makes two reads of what is still to be copied, in the workers. The first finds, for each target partition and group, the place
in the order of the first record that the group has not read; the second counts the records before it. A place is a tuple (batch, phase,
latest time, source partition, source offset): the order of the records that are to be copied to a target partition.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.chunks import LATEST, PHASE, TARGET, PartitionRouter, ReadPhases, Routing, read, task_numbers
from ottla.spark.migration.copied import Place
from ottla.spark.migration.lease import GROUP_PREFIX
from ottla.spark.migration.values import NOTHING, Extent, MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.planning import ReadTask

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Longs = np.ndarray[Any, np.dtype[np.int64]]


COLUMNS: Final = ("key", "timestamp", "partition", "offset")
"""The columns that are read from the source."""

Order = tuple[int, int, int, int, int]
BEHIND_ALL: Final[Order] = (2**62, 0, 0, 0, 0)

_LONGS: Final = ArrayType(LongType())
FIRST_PLACES: Final = StructType([StructField(TARGET, IntegerType()), StructField("group", IntegerType()), StructField("place", _LONGS)])
"""The place of the first unread record that a task has found for a target partition and a group."""

COUNTS: Final = StructType(
    [
        StructField(TARGET, IntegerType()),
        StructField("records", LongType()),
        StructField("before", _LONGS),
        StructField("read", _LONGS),
        StructField("read_before", _LONGS),
    ]
)
"""The records of a task for a target partition; by group, how many come before its first unread one, how many it has read, and both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceReader:
    """The records that are to be copied, without their values. `tasks`: the batches' numbers with what is read of each.

    `committed`: of each group, the committed offset in every source partition.
    """

    settings: ReadSettings
    tasks: tuple[tuple[tuple[int, ReadTask], ...], ...]
    routing: Routing
    committed: tuple[tuple[int, ...], ...]

    def read(self, number: int) -> "Iterator[tuple[int, int, pa.RecordBatch]]":
        """Batch number, source partition and records with the columns of ORDER, of one task."""
        for batch_number, task in self.tasks[number]:
            routers: dict[int, PartitionRouter] = {}
            for records in read(self.settings, task):
                partition = records.column("partition")[0].as_py()
                if partition not in routers:
                    routers[partition] = PartitionRouter(self.routing, partition)
                routed = routers[partition].route(records)
                if routed.num_rows:
                    yield batch_number, partition, routed


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUnread:
    """For `mapInArrow` over numbers of tasks: rows of FIRST_PLACES."""

    reader: PlaceReader

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for number in task_numbers(numbers):
            found: dict[tuple[int, int], Order] = {}
            for batch, partition, records in self.reader.read(number):
                for group, committed in enumerate(self.reader.committed):
                    for target, place in first_places(batch, partition, records, committed[partition]):
                        found[target, group] = min(found.get((target, group), BEHIND_ALL), place)
            columns = [[target for target, _ in found], [group for _, group in found], [list(place) for place in found.values()]]
            types = [pa.int32(), pa.int32(), pa.list_(pa.int64())]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=FIRST_PLACES.fieldNames())


def first_places(batch: int, partition: int, records: "pa.RecordBatch", committed: int) -> Iterator[tuple[int, Order]]:
    """Target partition and place of the first records there with at least this offset; `records` are of one source partition."""
    import numpy as np

    offsets = np.asarray(records.column("offset"))
    start = int(np.searchsorted(offsets, committed))
    targets, rows = np.unique(np.asarray(records.column(TARGET))[start:], return_index=True)
    for target, row in zip(targets.tolist(), (rows + start).tolist(), strict=True):
        phase, latest = (records.column(name)[row].as_py() for name in (PHASE, LATEST))
        yield target, (batch, phase, latest, partition, int(offsets[row]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCounter:
    """For `mapInArrow` over numbers of tasks: rows of COUNTS. `first`: by group and target partition, the place up to which to count."""

    reader: PlaceReader
    first: tuple[tuple[Order, ...], ...]

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import numpy as np
        import pyarrow as pa

        count, groups = self.reader.routing.partitions, len(self.first)
        limits = [np.array(each, np.int64).T for each in self.first]
        for number in task_numbers(numbers):
            records, sums = np.zeros(count, np.int64), np.zeros((3, groups, count), np.int64)
            for batch, partition, routed in self.reader.read(number):
                targets = np.asarray(routed.column(TARGET))
                records += np.bincount(targets, minlength=count)
                for group, limit in enumerate(limits):
                    is_before = comes_before(batch, partition, routed, limit[:, targets])
                    is_read = np.asarray(routed.column("offset")) < self.reader.committed[group][partition]
                    for row, chosen in enumerate((is_before, is_read, is_before & is_read)):
                        sums[row, group] += np.bincount(targets[chosen], minlength=count)
            columns = [pa.array(range(count), pa.int32()), pa.array(records)]
            columns += [pa.array(each.T.tolist(), pa.list_(pa.int64())) for each in sums]
            yield pa.RecordBatch.from_arrays(columns, names=COUNTS.fieldNames())


def comes_before(batch: int, partition: int, records: "pa.RecordBatch", limits: "Longs") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Whether each record comes before its limit; `limits` has a row for each field of a place, and a column for each record."""
    import numpy as np

    offsets = np.asarray(records.column("offset"))
    before: np.ndarray[Any, np.dtype[np.bool_]] = offsets < limits[4]
    fields = (batch, np.asarray(records.column(PHASE)), np.asarray(records.column(LATEST)), partition)
    for field, limit in reversed(list(zip(fields, limits[:4], strict=True))):
        before = (field < limit) | ((field == limit) & before)
    return before


def earliest_places(rows: Sequence[Any], groups: int, partitions: int) -> list[list[Order]]:
    """By group and target partition, the earliest place in rows of FIRST_PLACES; BEHIND_ALL where there is none."""
    found = [[BEHIND_ALL] * partitions for _ in range(groups)]
    for row in rows:
        place: Any = tuple(row["place"])
        found[row["group"]][row[TARGET]] = min(found[row["group"]][row[TARGET]], place)
    return found


@dataclass(frozen=True, slots=True)
class Counts:
    """What is to be copied to a target partition: the fields of COUNTS."""

    records: int
    before: tuple[int, ...]
    read: tuple[int, ...]
    read_before: tuple[int, ...]


def total_counts(rows: Sequence[Any], groups: int, partitions: int) -> Mapping[int, Counts]:
    """The sums of rows of COUNTS, by target partition."""
    lists = ("before", "read", "read_before")
    totals = {}
    for partition in range(partitions):
        mine = [row for row in rows if row[TARGET] == partition]
        sums = (tuple(sum(row[name][group] for row in mine) for group in range(groups)) for name in lists)
        totals[partition] = Counts(sum(row["records"] for row in mine), *sums)
    return totals


Positions = Mapping[str, Mapping[int, int]]
"""By group and source partition: the committed offset, that of the next record to read."""


class Carried(NamedTuple):
    """A group in the target: the offset in each target partition, and the number of records that it reads again."""

    offsets: Mapping[int, int]
    replayed: int


def carry(groups: Sequence[str], places: Mapping[int, Place], extents: Mapping[int, Extent]) -> dict[str, Carried]:
    """Each group at the first record that it has not read, else at the end; `groups` in the order of the places.

    A partition of the target without records has no places.
    """
    carried = {}
    for number, group in enumerate(groups):
        unread = {partition: each.first_unread[number] for partition, each in places.items()}
        offsets = {
            partition: extent.end if unread.get(partition, NOTHING) == NOTHING else unread[partition]
            for partition, extent in extents.items()
        }
        carried[group] = Carried(offsets, sum(each.replayed[number] for each in places.values()))
    return carried


def phases_of(positions: Positions, left: Mapping[int, Extent]) -> dict[int, ReadPhases]:
    """The phases of what is `left` of each source partition: first what all groups have read, at the end what none has.

    A group reads again what it has read in later phases than its first unread one, whatever the order within a phase is, and so whatever
    the size of a batch is. Of phases that equally many groups have read, the largest is first: those that have not read it read the
    smaller ones again.
    """
    cuts: dict[int, tuple[int, ...]] = {}
    readers: dict[int, list[frozenset[str]]] = {}
    sizes: Counter[frozenset[str]] = Counter()
    for partition, extent in left.items():
        committed = sorted((offsets.get(partition, 0), group) for group, offsets in positions.items())
        cuts[partition] = tuple(offset for offset, _ in committed)
        readers[partition] = [frozenset(group for _, group in committed[read:]) for read in range(len(committed) + 1)]
        for groups, part in zip(readers[partition], extent.cut_at(cuts[partition]), strict=True):
            sizes[groups] += part.size
    order = sorted(sizes, key=lambda groups: (-len(groups), -sizes[groups], sorted(groups)))
    numbers = {groups: number for number, groups in enumerate(order)}
    return {partition: ReadPhases(cuts[partition], tuple(numbers[groups] for groups in readers[partition])) for partition in left}


def by_group(positions: Positions, partitions: int) -> tuple[tuple[int, ...], ...]:
    """Of each group, the committed offset in every source partition; 0 where it has committed none."""
    return tuple(tuple(each.get(number, 0) for number in range(partitions)) for each in positions.values())


def forecast(
    groups: Sequence[str], places: Mapping[int, Place], extents: Mapping[int, Extent], counts: Mapping[int, Counts]
) -> dict[str, Carried]:
    """The same for what the target will have: what it holds now, and behind it the records of `counts`.

    A group whose first unread record the target holds already reads all later ones again that it has read.
    """
    carried = {}
    for number, group in enumerate(groups):
        offsets, replayed = {}, 0
        for partition, extent in extents.items():
            added, held = counts[partition], places.get(partition)
            if held is not None and held.first_unread[number] != NOTHING:
                offsets[partition] = held.first_unread[number]
                replayed += held.replayed[number] + added.read[number]
            else:
                offsets[partition] = extent.end + added.before[number]
                replayed += added.read[number] - added.read_before[number]
        carried[group] = Carried(offsets, replayed)
    return carried


WITHOUT_MEMBERS = ("Empty", "Dead")


def read_positions(admin: AdminClient, source: str, names: Iterable[str] | None) -> Positions:
    """The committed offsets of groups for `source`. `names` None: every group that has any. Raises MigrationError, ClientError."""
    listed = (group.group_id for group in admin.list_groups()) if names is None else names
    wanted = tuple(group for group in listed if not group.startswith(GROUP_PREFIX))
    found: dict[str, dict[int, int]] = {}
    for group, offsets in admin.committed(wanted).items():
        if isinstance(offsets, Failure):
            raise MigrationError(f"the offsets of group {group} cannot be read: {_words(offsets)}")
        mine = {place.partition: each.offset for place, each in offsets.items() if place.topic == source and each.offset >= 0}
        if mine:
            found[group] = mine
        elif names is not None:
            raise MigrationError(f"group {group} has no committed offsets for {source}: leave it out of --groups")
    return dict(sorted(found.items()))


def with_members(admin: AdminClient, groups: Iterable[str]) -> dict[str, str]:
    """The groups that have members, or are just getting or losing some, with their states. Raises MigrationError, ClientError."""
    found = {}
    for group, described in admin.describe_groups(groups).items():
        if isinstance(described, Failure):
            if described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise MigrationError(f"group {group} cannot be described: {_words(described)}")
        elif isinstance(described, DescribedGroup) and described.state not in WITHOUT_MEMBERS:
            found[group] = described.state
    return found


def commit(admin: AdminClient, target: str, carried: Mapping[str, Carried]) -> None:
    """Commit each group's offsets for the target; none that it has there is moved back. Raises MigrationError, ClientError."""
    for group, known in admin.committed(carried).items():
        if isinstance(known, Failure):
            raise MigrationError(f"the offsets of group {group} cannot be read: {_words(known)}")
        places = {TopicPartition(target, number): offset for number, offset in carried[group].offsets.items()}
        ahead = {place: offset for place, offset in places.items() if place not in known or known[place].offset < offset}
        if not ahead:
            continue
        results = admin.commit(group, ahead)
        failures = [results] if isinstance(results, Failure) else [each for each in results.values() if each is not None]
        if failures:
            raise MigrationError(
                f"all records are copied, but the offsets of group {group} were not committed: {_words(failures[0])}. Stop the group's"
                " members, and run the same command again"
            )


def _words(failure: Failure) -> str:
    return failure.message or failure.code.name
