"""Partition assignors, one a file: which member of a group reads which partitions. `ASSIGNOR` of each file is found by its file's name.

An assignor is pure: the same members and partitions give the same assignment. A user's own is a subclass of `Assignor`, named as
`module:Class` wherever an assignor is named.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.config.broker_settings import CONSUMER_ASSIGNORS
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions
from ottla.text import did_you_mean, java_order

Assignment = dict[str, dict[str, list[int]]]
"""Partition numbers by member id and topic, in ascending order; every member has an entry."""
Racks = Mapping[str, Sequence[frozenset[str]]]
"""The racks of each partition's replicas, by topic, in the order of the partitions; a topic that is missing has none that are known."""
NO_RACKS: Final[Racks] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as the assignor sees it. `owned`: the partitions that it owned in `generation`, before this rebalance.

    `rack` is its client.rack, None where it has none.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: Partitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    rack: str | None = None

    @property
    def order(self) -> tuple[bool, bytes]:
        """The position among members: static members first, by instance id, then the others by member id (Kafka: `MemberInfo`)."""
        return self.instance_id is None, java_order(self.instance_id or self.member_id)


class Assignor(ABC):
    """Distributes partitions. `is_cooperative`: members keep their partitions while they rejoin, and revoke only what they lose.

    The leader of a classic group calls its assignor, and the coordinator that of a consumer group: `for_leaders` and `for_coordinator`.
    """

    name: str
    is_cooperative: bool = False
    for_leaders: bool = True
    for_coordinator: bool = False

    @abstractmethod
    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """The assignment of `partitions` (their count by topic) to `members`; a partition without a subscriber is left out.

        A group's leader passes all three by position.
        """

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """What a member sends with its subscription, after an assignment of `owned` in `generation` (None: it never had one)."""
        return None

    def with_user_data(self, member: Subscriber, user_data: bytes | None) -> Subscriber:
        """A member as its subscription's fields describe it, completed by its user data."""
        return member


def assignors() -> dict[str, Assignor]:
    """Every assignor that a leader may have, by its Kafka name."""
    return {name: assignor for name, assignor in _all_assignors().items() if assignor.for_leaders}


def coordinator_assignors(names: Sequence[str] = CONSUMER_ASSIGNORS) -> dict[str, Assignor]:
    """The assignors of consumer groups by the names that members choose them by, in this order; a user's own is `module:Class`.

    Raises ValueError that says what is wrong.
    """
    known = {name: assignor for name, assignor in _all_assignors().items() if assignor.for_coordinator}
    chosen: dict[str, Assignor] = {}
    for name in names:
        if ":" not in name and name not in known:
            raise ValueError(f"{name!r} is no assignor of consumer groups (assignors: {', '.join(sorted(known))}, or module:Class)")
        assignor = known[name] if name in known else find_assignor(name)
        if assignor.name in chosen:
            raise ValueError(f"two assignors of consumer groups have the name {assignor.name!r}")
        chosen[assignor.name] = assignor
    return chosen


def _all_assignors() -> dict[str, Assignor]:
    from ottla.discovery import drop_ins
    from ottla.groups import assignors as package

    # mypy: an abstract class is a class all the same.
    return {assignor.name: assignor for assignor in drop_ins(package, "ASSIGNOR", Assignor).values()}  # type: ignore[type-abstract]


def find_assignor(name: str) -> Assignor:
    """The assignor of a Kafka name, or a user's own by `module:Class`. Raises ValueError that says what is wrong."""
    if ":" not in name:
        known = assignors()
        if name not in known:
            raise ValueError(f"{name!r} is no assignor{did_you_mean(name, known)} (assignors: {', '.join(sorted(known))}, or module:Class)")
        return known[name]
    module_name, _, class_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except (ImportError, ValueError) as error:
        raise ValueError(f"the assignor {name}: the module cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Assignor):
        raise ValueError(f"the assignor {name}: {class_name} must be a subclass of ottla.groups.assignors.Assignor")
    try:
        assignor = found()
    except TypeError as error:
        raise ValueError(f"the assignor {name}: {error}") from error
    if not getattr(assignor, "name", ""):
        raise ValueError(f"the assignor {name}: set `name`, by which the members of a group agree on it")
    return assignor
