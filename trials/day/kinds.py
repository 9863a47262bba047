"""One action while it happens, and what a kind of action is: to which groups and members it can happen."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trials.day.groups import Group
from trials.day.ledger import Action, Step
from trials.day.members import Member
from trials.day.world import World


class Run:
    """One action while it happens: the groups and the members that it has, and its place in the ledger."""

    def __init__(self, action: Action, world: World, groups: Sequence[Group], actors: Sequence[Member], rng: random.Random) -> None:
        self.action = action
        self.world = world
        self.groups = groups
        self.actors = actors
        self.rng = rng

    @property
    def group(self) -> Group:
        """The group of an action that has one."""
        return self.groups[0]

    @property
    def actor(self) -> Member:
        """The member that it happens to."""
        return self.actors[0]

    def between(self, first_s: float, last_s: float) -> None:
        """Wait for a time between these."""
        time.sleep(self.rng.uniform(first_s, last_s))

    @contextmanager
    def causing(self, *causes: str, also: Sequence[str] = (), is_required: bool = True, settle_s: float = 12.0) -> Iterator[None]:
        """What happens in the block, and until the groups are stable, has one of these causes."""
        from_ms = now_ms()
        yield
        deadline_s = time.monotonic() + settle_s
        for group in self.groups:
            group.wait_until_divided(deadline_s - time.monotonic())
        to_ms = now_ms()
        for group in self.groups:
            tolerated = tuple({*also, *group.habits()} - set(causes))
            step = Step(group=group.name, from_ms=from_ms, to_ms=to_ms, causes=causes, also=tolerated, is_required=is_required)
            self.action.steps.append(step)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of action.

    suits: whether it can happen to a group. clients: of its actors; none: all. actors: how many of them. is_of_group: it has all members.
    is_of_broker: it happens to all groups.
    """

    name: str
    incident: str
    act: Callable[[Run], None]
    planned: bool = False
    suits: Callable[[Group], bool] = lambda group: True
    clients: tuple[str, ...] = ()
    actors: int = 1
    members_min: int = 2
    is_of_group: bool = False
    is_of_broker: bool = False
    is_behind_proxy: bool = False


def is_dynamic(group: Group) -> bool:
    """Whether its members have no instance ids."""
    return not group.kind.is_static


def is_static(group: Group) -> bool:
    """Whether its members have instance ids."""
    return group.kind.is_static


def is_static_classic(group: Group) -> bool:
    """A static one of the classic protocol."""
    return group.kind.is_static and group.is_classic


def is_dynamic_classic(group: Group) -> bool:
    """A dynamic one of the classic protocol."""
    return is_dynamic(group) and group.is_classic


def has_range(group: Group) -> bool:
    """A dynamic one whose members give up all partitions when they rejoin, and share the range assignor."""
    return is_dynamic(group) and "range" in group.kind.assignors and group.is_classic


def has_two_assignors(group: Group) -> bool:
    """A dynamic one whose members share more than one assignor."""
    return is_dynamic(group) and len(group.kind.assignors) > 1
