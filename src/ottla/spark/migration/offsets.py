"""Where each group continues in the target, and how many records it reads again there. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.spark.migration.contents import Place
from ottla.spark.migration.forecast import Counts
from ottla.spark.migration.values import NOTHING, Extent

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


def by_partition(positions: Positions, partitions: int) -> dict[int, tuple[int, ...]]:
    """The sorted committed offsets of all groups in each source partition; 0 for a group that has committed none there."""
    return {number: tuple(sorted(each.get(number, 0) for each in positions.values())) for number in range(partitions)}


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
