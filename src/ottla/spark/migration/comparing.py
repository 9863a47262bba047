"""Whether the target has exactly the records of the source, by checksums of their offsets in it. Pure.

Two comparisons for each source partition. What the target got since the run began has to be what this run read and did not find there.
What it held before has to be what the run read and found there already: all of it, since a run that continues reads these offsets again.
"""

from collections.abc import Mapping
from typing import Final

from ottla.spark.migration.checksums import NO_OFFSETS, Checksum, add_up
from ottla.spark.migration.chunks import Seen
from ottla.spark.migration.values import Extent, MigrationError

_AGAIN: Final = "Delete {target}, and run the same command again"


class Comparison:
    """Of a source with a target, in one run.

    `held`: what the target held when the run began, of the offsets from `starts` on, by source partition. `is_compacted`: the source may
    have lost records between others, so that the target may have held more than it has; then their number alone is compared.
    """

    def __init__(
        self, source: str, target: str, *, starts: Mapping[int, int], held: Mapping[int, Checksum], is_compacted: bool = False
    ) -> None:
        self._source = source
        self._target = target
        self._starts = starts
        self._held = held
        self._is_compacted = is_compacted
        self._seen: dict[Seen, Checksum] = {}
        self._deleted: set[int] = set()

    def begin(self, ends: Mapping[int, Extent]) -> None:
        """The first offsets that are read. Where retention has deleted some since the target was read, it may have held more, too."""
        self._deleted = {partition for partition, each in ends.items() if each.start > self._starts[partition]}

    @property
    def found_again(self) -> int:
        """How many of the records that the target held the source still has."""
        return sum(each.records for key, each in self._seen.items() if not key.is_new)

    def add(self, seen: Mapping[Seen, Checksum]) -> None:
        """The run has read these offsets."""
        add_up(self._seen, seen)

    def check(self, found: Mapping[int, Checksum]) -> None:
        """`found`: what the target has now, of the offsets from `starts` on. Raises MigrationError where it is not what it has to be."""
        for partition in self._starts:
            before = self._held.get(partition, NO_OFFSETS)
            self._check_held(partition, before)
            copied = found.get(partition, NO_OFFSETS).minus(before)
            read = self._seen.get(Seen(partition, True), NO_OFFSETS)
            if copied != read:
                raise MigrationError(
                    f"{self._target} got {copied.records} records of {self._source}-{partition} since this run began, and they are not the"
                    f" {read.records} that it read there: records were lost, or another program writes to {self._target}. "
                    + _AGAIN.format(target=self._target)
                )

    def _check_held(self, partition: int, held: Checksum) -> None:
        there = self._seen.get(Seen(partition, False), NO_OFFSETS)
        may_be_more = self._is_compacted or partition in self._deleted
        if held == there or (may_be_more and held.records >= there.records):
            return
        raise MigrationError(
            f"{self._target} held {held.records} records of {self._source}-{partition}, and they are not the {there.records} that it has up"
            f" to there: {self._source} was deleted and made again, or another --partitioner was used. "
            + _AGAIN.format(target=self._target)
        )
