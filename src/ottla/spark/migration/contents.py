"""What the target holds, part by part, and where groups are in it. Pure.

Each part is read once, when it is new. Source offsets rise from part to part, so that a group's committed offsets say which parts it has
read as a whole, and which not at all: to place it, only those have to be read again where it is between two records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.spark.migration.checksums import Checksum, add_up
from ottla.spark.migration.copied import Summary
from ottla.spark.migration.values import NOTHING, Extent, MigrationError

if TYPE_CHECKING:
    import numpy as np

    Longs = np.ndarray[Any, np.dtype[np.int64]]

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
