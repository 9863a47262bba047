"""Turns the assignments of a group into arrays of owners: of all partitions, or what an assignment changed, whichever is smaller."""

from array import array
from collections.abc import Mapping, Sequence
from operator import ne
from typing import Final, NamedTuple

from ottla.core.diagnosis.story.arrays import unsigned

Assigned = Mapping[str, Sequence[int]]


class AssignmentChange(NamedTuple):
    """What one assignment changed: (row, what it owned, what it owns). `at_ms`: when it was stored."""

    at_ms: int
    generation: int | None
    rows: list[tuple[int, Assigned, Assigned]]


class OwnerArrays(NamedTuple):
    """All assignments of a group; N partitions, A assignments.

    topics: (name, partition numbers); a partition's place is its place in all these numbers together. no_owner: the row that means that
    there is none. is_whole: for each assignment 1 if all its N owners are in `owners`, 0 if only changes. starts (A + 1): where each
    assignment's owners begin in `owners`. places: of each owner of a change, the partition's place, in the same order; whole assignments
    have none in it.
    """

    topics: list[tuple[str, list[int]]]
    no_owner: int
    at_ms: list[int]
    generation: list[int | None]
    is_whole: list[int]
    starts: "array[int]"
    places: "array[int]"
    owners: "array[int]"


NOTHING: Final[Assigned] = {}
_CHANGE_SIZE: Final = 3
"""A change takes a place and an owner, about three times an owner alone."""


def owner_arrays(changes: Sequence[AssignmentChange], *, rows: int) -> OwnerArrays:
    """The owners after each change. `rows`: how many rows there are."""
    topics = _topics(changes)
    numbers, places = 0, {}
    for topic, partitions in topics:
        places[topic] = {partition: numbers + index for index, partition in enumerate(partitions)}
        numbers += len(partitions)
    no_owner = rows
    current = unsigned([no_owner], largest=rows) * numbers
    owners, changed = current[:0], unsigned([], largest=numbers)
    starts, is_whole = [0], []
    for change in changes:
        before, current = current, _apply(current, change, places, no_owner)
        touched = _touched(change, places)
        whole = len(touched) * _CHANGE_SIZE > numbers and sum(map(ne, before, current)) * _CHANGE_SIZE > numbers
        is_whole.append(int(whole))
        if whole:
            owners.extend(current)
        else:
            different = [place for place in touched if before[place] != current[place]]
            changed.extend(different)
            owners.extend([current[place] for place in different])
        starts.append(len(owners))
    generations = [change.generation for change in changes]
    times = [change.at_ms for change in changes]
    return OwnerArrays(topics, no_owner, times, generations, is_whole, unsigned(starts, largest=len(owners)), changed, owners)


def _topics(changes: Sequence[AssignmentChange]) -> list[tuple[str, list[int]]]:
    seen: dict[str, set[int]] = {}
    for change in changes:
        for _, _, after in change.rows:
            for topic, partitions in after.items():
                seen.setdefault(topic, set()).update(partitions)
    return [(topic, sorted(seen[topic])) for topic in sorted(seen)]


def _apply(owners: "array[int]", change: AssignmentChange, places: Mapping[str, Mapping[int, int]], no_owner: int) -> "array[int]":
    """The owners after a change: what a row gave up has no owner, unless another got it."""
    after = owners[:]
    for row, gone, _ in change.rows:
        for topic, partitions in gone.items():
            of_topic = places[topic]
            for partition in partitions:
                if after[of_topic[partition]] == row:
                    after[of_topic[partition]] = no_owner
    for row, _, got in change.rows:
        for topic, partitions in got.items():
            of_topic = places[topic]
            for partition in partitions:
                after[of_topic[partition]] = row
    return after


def _touched(change: AssignmentChange, places: Mapping[str, Mapping[int, int]]) -> list[int]:
    """The places of all partitions that a row had or has."""
    assigned = (each for _, gone, got in change.rows for each in (gone, got))
    return sorted({places[topic][partition] for each in assigned for topic, partitions in each.items() for partition in partitions})
