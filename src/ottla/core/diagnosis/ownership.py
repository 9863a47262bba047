"""Compares the owners of partitions before and after a rebalance: how many partitions moved.

A partition's last known owner is kept through assignments without the partition, because a cooperative rebalance revokes a partition and
the next one assigns it again. Whether a move was needed is not decided here.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ottla.core.model import EventMember


class Owner(NamedTuple):
    """A member as an owner. `is_alone`: no other member of its assignment has the same client id and host."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_alone: bool

    def is_same(self, other: "Owner") -> bool:
        """Whether it is the same process, as far as is known: by member id, by instance id, or by an unambiguous client id and host.

        Members that were removed and came back have a new member id; without this rule their partitions would count as moved.
        """
        if self.member_id == other.member_id:
            return True
        if self.instance_id is not None or other.instance_id is not None:
            return self.instance_id == other.instance_id
        is_clear = self.is_alone and other.is_alone
        return is_clear and (self.client_id, self.client_host) == (other.client_id, other.client_host)


class AssignmentChange(NamedTuple):
    """An assignment compared with the one before: its partitions, those with another owner than before, those never owned before."""

    assigned: int
    moved: int
    new: int


class Owners:
    """The last known owner of each partition of one group."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int], Owner] = {}

    def update(self, members: Sequence[EventMember]) -> AssignmentChange:
        """Compare an assignment with the owners known so far, then make its owners the known ones."""
        clients = Counter((member.client_id, member.client_host) for member in members)
        assigned = moved = new = 0
        for member in members:
            is_alone = clients[member.client_id, member.client_host] == 1
            owner = Owner(member.member_id, member.instance_id, member.client_id, member.client_host, is_alone)
            for topic, partitions in member.assignment.items():
                for partition in partitions:
                    before = self._owners.get((topic, partition))
                    assigned += 1
                    new += before is None
                    moved += before is not None and not before.is_same(owner)
                    self._owners[topic, partition] = owner
        return AssignmentChange(assigned, moved, new)
