"""Follows who owns each partition of a group, and compares the owners before and after a rebalance.

Owners are processes (`Processes`): a member that was removed and came back with a new member id owns what it owned. A partition's last
owner is kept while it is in no assignment, because a cooperative rebalance revokes a partition and the next one assigns it again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.groups.events import EventMember
from ottla.history.processes import Processes
from ottla.protocol.model import TopicPartition


class AssignmentDiff(NamedTuple):
    """What an assignment changed.

    assigned: its partitions. moved: those that another process owned in the assignment before. new: those in no assignment before. gone:
    those that the assignment before had and this one has not. regained: those that the assignment before had not, and an earlier one had,
    as a cooperative follow-up assigns them; given_back: how many of these got their last owner again. kept: those of the same process.
    is_first: no assignment before is known.
    """

    assigned: int
    moved: int
    new: int
    gone: int
    regained: int
    kept: int
    given_back: int = 0
    is_first: bool = False

    @property
    def all_moved(self) -> int:
        """The partitions whose last known owner is another process."""
        return self.moved + self.regained - self.given_back


class Owners:
    """The owners of the partitions of one group, assignment by assignment."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._current: dict[TopicPartition, int] | None = None
        self._last: dict[TopicPartition, int] = {}

    def set(self, members: Sequence[EventMember], at_ms: int) -> None:
        """Take over an assignment that no rebalance made: one that was loaded, or that a source shows first."""
        self._current = self._owned(members, at_ms)
        self._last |= self._current

    def update(self, members: Sequence[EventMember], at_ms: int) -> AssignmentDiff:
        """Take over the assignment of a rebalance: what it changed."""
        before, last = self._current or {}, self._last
        after = self._owned(members, at_ms)
        moved = new = regained = given_back = kept = 0
        for partition, owner in after.items():
            held = before.get(partition)
            if held is not None:
                kept += held == owner
                moved += held != owner
            elif partition in last:
                regained += 1
                given_back += last[partition] == owner
            else:
                new += 1
        gone = sum(partition not in after for partition in before)
        is_first = self._current is None
        self._current = after
        self._last |= after
        return AssignmentDiff(len(after), moved, new, gone, regained, kept, given_back, is_first)

    def _owned(self, members: Sequence[EventMember], at_ms: int) -> dict[TopicPartition, int]:
        rows = self._processes.rows_of(members, at_ms)
        return {
            TopicPartition(topic, partition): row
            for row, member in zip(rows, members, strict=True)
            for topic, partitions in member.assignment.items()
            for partition in partitions
        }
