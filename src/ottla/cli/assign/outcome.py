"""What one assignor makes of a state: the assignment when its rebalances are complete, and what moved."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ottla.cli.assign.state import State
from ottla.core.assignors import Assignment, Assignor, Subscriber

REBALANCES_MAX: Final = 10
"""A cooperative assignor needs two; one that goes on moving partitions is stopped."""


class Move(NamedTuple):
    """A partition that changes its owner."""

    topic: str
    partition: int
    giver: str
    taker: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`assignment` is complete after `rebalances`. `owned`: partitions that had an owner; `stopped` of them are not read meanwhile."""

    assignor: Assignor
    assignment: Assignment
    rebalances: int
    moves: tuple[Move, ...]
    owned: int

    @property
    def stopped(self) -> int:
        """Cooperative members go on reading what does not move."""
        return len(self.moves) if self.assignor.is_cooperative else self.owned

    @property
    def loads(self) -> list[int]:
        """How many partitions each member has."""
        return [sum(map(len, of.values())) for of in self.assignment.values()]


def outcome(assignor: Assignor, state: State, before: Mapping[str, Mapping[str, Sequence[int]]]) -> Outcome:
    """The assignment of a state whose partitions had the owners of `before`, some of which may be gone."""
    assignment, rebalances = complete_assignment(assignor, state)
    owners = {(topic, number): member for member, topic, number in _each(before) if number < state.partitions.get(topic, 0)}
    moves = [
        Move(topic, number, owners[topic, number], member)
        for member, topic, number in _each(assignment)
        if owners.get((topic, number), member) != member
    ]
    return Outcome(assignor, assignment, rebalances, tuple(sorted(moves)), len(owners))


def complete_assignment(assignor: Assignor, state: State) -> tuple[Assignment, int]:
    """The assignment after as many rebalances as the assignor needs, and how many those are."""
    members = state.members
    assignment = assignor.assign(members, state.partitions, state.racks)
    rebalances = 1
    while assignor.is_cooperative and _revokes(members, assignment) and rebalances < REBALANCES_MAX:
        members = with_ownership(members, assignment)
        assignment = assignor.assign(members, state.partitions, state.racks)
        rebalances += 1
    return assignment, rebalances


def with_ownership(members: Sequence[Subscriber], owned: Assignment) -> tuple[Subscriber, ...]:
    """The members with what an assignment gave them; a member that it does not know owns nothing."""
    generation = 1 + max((each.generation for each in members), default=0)
    return tuple(replace(each, owned=owned.get(each.member_id, {}), generation=generation) for each in members)


def _revokes(members: Sequence[Subscriber], assignment: Assignment) -> bool:
    """Whether a member has to give something up, after which it joins again."""
    return any(
        not set(numbers) <= set(assignment.get(member.member_id, {}).get(topic, ()))
        for member in members
        for topic, numbers in member.owned.items()
    )


def _each(owned: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[tuple[str, str, int]]:
    return ((member, topic, number) for member, of in owned.items() for topic, numbers in of.items() for number in numbers)
