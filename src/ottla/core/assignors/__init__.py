"""Partition assignors, one a file: which member of a group reads which partitions. `ASSIGNOR` of each file is found by its file's name.

An assignor is pure: the same members and partitions give the same assignment. A user's own is a subclass of `Assignor`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Assignment = dict[str, dict[str, list[int]]]
"""Partition numbers by member id and topic, in ascending order; every member has an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as the assignor sees it. `owned`: the partitions that it owned in `generation`, before this rebalance."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = -1

    @property
    def order(self) -> tuple[bool, str]:
        """The position among members: static members first, by instance id, then the others by member id (Kafka: `MemberInfo`)."""
        return self.instance_id is None, self.instance_id or self.member_id


class Assignor(ABC):
    """Distributes partitions. `is_cooperative`: members keep their partitions while they rejoin, and revoke only what they lose."""

    name: str
    is_cooperative: bool = False

    @abstractmethod
    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        """The assignment of `partitions` (their count by topic) to `members`; a partition without a subscriber is left out."""


def assignors() -> dict[str, Assignor]:
    """Every assignor by its Kafka name."""
    from ottla.core import assignors as package
    from ottla.core.discovery import drop_ins

    # mypy: an abstract class is a class all the same.
    return {each.name: each for each in drop_ins(package, "ASSIGNOR", Assignor).values()}  # type: ignore[type-abstract]
