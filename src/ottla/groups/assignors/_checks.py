"""Calls of assignors, which users may have written: what one raises names it, and what it gives is checked before a group acts on it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber


class AssignorError(ValueError):
    """An assignor has raised an error, or what it gave is no assignment. The sentence names it."""


@contextmanager
def named_in_errors(assignor: Assignor) -> Iterator[None]:
    """Whatever a method of the assignor raises becomes an AssignorError."""
    try:
        yield
    except Exception as error:
        raise AssignorError(f"{_name(assignor)} raised {type(error).__name__}: {error}") from error


def coordinator_assignment(assignor: Assignor, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """What a coordinator's assignor gives. Ottla's own are not checked: for thousands of members that takes as long as assigning."""
    if not type(assignor).__module__.startswith("ottla.groups.assignors."):
        return checked_assignment(assignor, members, partitions)
    with named_in_errors(assignor):
        return assignor.assign(members, partitions)


def checked_assignment(
    assignor: Assignor, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS
) -> Assignment:
    """What the assignor gives to `members`: each partition with a subscriber to one of them. Raises AssignorError.

    A cooperative assignor may leave out what a member owns, until that has revoked it.
    """
    with named_in_errors(assignor):
        given = assignor.assign(members, partitions, racks)
    try:
        made = {member_id: {topic: sorted(set(map(index, numbers))) for topic, numbers in of.items()} for member_id, of in given.items()}
    except (AttributeError, TypeError) as error:
        raise AssignorError(
            f"{_name(assignor)} gave {given!r:.200}: it must give a dictionary of partition numbers by topic for each member id"
        ) from error
    fault = _unknown(made, members, partitions) or _shared(made, members, partitions, is_cooperative=assignor.is_cooperative)
    if fault:
        raise AssignorError(f"{_name(assignor)} gave {fault}")
    for member in members:
        made.setdefault(member.member_id, {})
    return made


def _name(assignor: Assignor) -> str:
    kind = type(assignor)
    return f"the assignor {assignor.name} ({kind.__module__}:{kind.__qualname__})"


def _unknown(made: Assignment, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> str:
    """What is wrong with a single entry."""
    topics = {member.member_id: member.topics for member in members}
    for member, of in made.items():
        if member not in topics:
            return f"an assignment to {member!r}, which is no member of the group"
        for topic, numbers in of.items():
            if numbers and topic not in partitions:
                return f"{topic}-{numbers[0]} to {member}, but there is no such topic among those of the group"
            if numbers and topic not in topics[member]:
                return f"{topic}-{numbers[0]} to {member}, which does not subscribe to {topic}"
            wrong = next((number for number in numbers if not 0 <= number < partitions[topic]), None)
            if wrong is not None:
                return f"{topic}-{wrong} to {member}, but {topic} has the partitions 0 to {partitions[topic] - 1}"
    return ""


def _shared(made: Assignment, members: Sequence[Subscriber], partitions: Mapping[str, int], *, is_cooperative: bool) -> str:
    """What is wrong between members: a partition with two owners or none, or one that is given away before its owner has revoked it."""
    owners: dict[tuple[str, int], str] = {}
    for member_id, of in made.items():
        for topic, numbers in of.items():
            for number in numbers:
                other = owners.setdefault((topic, number), member_id)
                if other != member_id:
                    return f"{topic}-{number} to both {other} and {member_id}"
    claims: dict[tuple[str, int], list[Subscriber]] = {}
    if is_cooperative:
        latest = max((member.generation for member in members), default=0)
        for member in members:
            for topic, numbers_owned in member.owned.items():
                for number in numbers_owned:
                    claims.setdefault((topic, number), []).append(member)
        for (topic, number), claimants in claims.items():
            present = {member.member_id for member in claimants if member.generation == latest}
            owner = owners.get((topic, number))
            if len(present) == 1 and owner is not None and owner not in present:
                return f"{topic}-{number} to {owner} before its owner revoked it"
    for topic in sorted({topic for member in members for topic in member.topics} & partitions.keys()):
        for number in range(partitions[topic]):
            if (topic, number) not in owners and (topic, number) not in claims:
                return f"{topic}-{number} to no member, so that nothing reads it"
    return ""
