"""Who owned which partition before and who owns it now: how much of a plan really moved.

A partition's last known owner is remembered through plans that leave it out, because a cooperative rebalance gives a partition up in one
round and hands it on in the next. It never decides whether a move was needed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ottla.core.model import EventMember


class Owner(NamedTuple):
    """A member as an owner; `is_alone` says that nobody else in its plan has the same client id and host."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_alone: bool

    def is_same(self, other: "Owner") -> bool:
        """The same process, as far as can be told: by member id, by instance id, or by a client id and host that are unambiguous.

        Members that were evicted and came back have a new member id and would otherwise seem to take partitions from themselves.
        """
        if self.member_id == other.member_id:
            return True
        if self.instance_id is not None or other.instance_id is not None:
            return self.instance_id == other.instance_id
        is_clear = self.is_alone and other.is_alone
        return is_clear and (self.client_id, self.client_host) == (other.client_id, other.client_host)


class Plan(NamedTuple):
    """A plan compared with what was known before: partitions in it, those with another owner than before, those never owned before."""

    assigned: int
    moved: int
    new: int


class Owners:
    """The last known owner of each partition of one group."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int], Owner] = {}

    def take(self, members: Sequence[EventMember]) -> Plan:
        """Compare a plan with the owners known so far, then remember it."""
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
        return Plan(assigned, moved, new)
