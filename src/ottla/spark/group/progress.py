"""How far a streaming query is in the partitions that it owns as a member of its group: where it continues, and what it commits. Pure.

A query owns a partition from an assignment to the revocation or loss. It continues at the group's committed offset, because another member
may have progressed in between. The exception is what the query itself has processed but could not commit: it is in the query's checkpoint
(and in its table), and is not read again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.model import TopicPartition


class Processed(NamedTuple):
    """The last batch of a query in a partition, which is processed: it ended at `end`.

    `committed`: what the group had committed when the batch was planned, as far as the query knew; the start of the batch where it had
    nothing. The group's offset lies between the two if the query was the last to progress.
    """

    committed: int
    end: int


@dataclass(slots=True, eq=False)
class Owned:
    """One assignment of a partition: the next offset to plan, None before it is known, and the group's offset as far as it is known.

    The planner alone changes it. When the partition is assigned again after a revocation or loss, that is another object.
    """

    position: int | None = None
    committed: int | None = None


def resume_offset(processed: Processed | None, committed: int | None, otherwise: int) -> int:
    """Where a query continues a partition that it has got. `committed`: the group's offset, None: there is none; then `otherwise`.

    An offset outside of what the query itself has processed is that of another member, or was set by an administrator.
    """
    if processed is None:
        return otherwise if committed is None else committed
    is_own = committed is None or processed.committed <= committed <= processed.end
    return processed.end if is_own else committed  # type: ignore[return-value]


class Progress:
    """The partitions of one query, and what it has processed.

    `assigned` and `given_up` belong to the thread that polls, all else to the planner; `owned` and `due` need the lock between the two.
    """

    def __init__(self) -> None:
        self._owned: dict[TopicPartition, Owned] = {}
        self._in_flight: dict[TopicPartition, Processed] = {}
        self._processed: dict[TopicPartition, Processed] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """The group gives these partitions to the query."""
        self._owned.update({partition: Owned() for partition in partitions})

    def given_up(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions may be another member's from now on: nothing is committed for them any more."""
        for partition in partitions:
            self._owned.pop(partition, None)

    def owned(self) -> dict[TopicPartition, Owned]:
        """Everything that is owned now."""
        return dict(self._owned)

    def restore(self, processed: Mapping[TopicPartition, Processed]) -> None:
        """What an earlier run of the query has processed."""
        self._processed = dict(processed)

    def resume(self, partition: TopicPartition, owned: Owned, committed: int | None, otherwise: int) -> None:
        """Set where the query continues a partition that it has got: see `resume_offset`."""
        owned.position = resume_offset(self._processed.get(partition), committed, otherwise)
        owned.committed = committed

    def planned(self, batch: Mapping[TopicPartition, Processed], owned: Mapping[TopicPartition, Owned]) -> None:
        """A batch of the `owned` is planned. It is processed also where a partition is lost meanwhile, but then it is never committed."""
        self._in_flight.update(batch)
        for partition, processed in batch.items():
            owned[partition].position = processed.end

    def not_run(self) -> None:
        """What was planned was not processed: everything that is owned continues where the group is."""
        self._in_flight.clear()
        for owned in self.owned().values():
            owned.position = None

    def batch_done(self) -> None:
        """What was planned is durably processed."""
        self._processed.update(self._in_flight)
        self._in_flight.clear()

    def due(self) -> dict[TopicPartition, Owned]:
        """Those whose position the group does not have. All that was planned must be processed."""
        return {partition: each for partition, each in self._owned.items() if each.position not in (None, each.committed)}
