from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.history.story.arrays import NOTHING, AssignmentChange, OwnerArrays, owner_arrays

ROWS = 4
PARTITIONS = [("a", number) for number in range(5)] + [("b", 7), ("b", 900)]


def owned(owners: Mapping[tuple[str, int], int | None]) -> dict[int, dict[str, list[int]]]:
    """Assignments by row, from an owner for each partition."""
    found: dict[int, dict[str, list[int]]] = {}
    for (topic, partition), row in owners.items():
        if row is not None:
            found.setdefault(row, {}).setdefault(topic, []).append(partition)
    return found


def changes(assignments: list[dict[tuple[str, int], int | None]]) -> list[AssignmentChange]:
    by_row = [{}, *map(owned, assignments)]
    return [
        AssignmentChange(
            index, index, [(row, before.get(row, NOTHING), after.get(row, NOTHING)) for row in sorted(before.keys() | after.keys())]
        )
        for index, (before, after) in enumerate(pairwise(by_row))
    ]


def decoded(arrays: OwnerArrays) -> list[dict[tuple[str, int], int | None]]:
    """The owner of each partition after each assignment, as a page reads them."""
    names = [(topic, partition) for topic, partitions in arrays.topics for partition in partitions]
    current = [arrays.no_owner] * len(names)
    places_read, found = 0, []
    for index, whole in enumerate(arrays.is_whole):
        owners = arrays.owners[arrays.starts[index] : arrays.starts[index + 1]]
        if whole:
            current = list(owners)
        else:
            for owner in owners:
                current[arrays.places[places_read]] = owner
                places_read += 1
        found.append({name: None if owner == arrays.no_owner else owner for name, owner in zip(names, current, strict=True)})
    assert places_read == len(arrays.places)
    return found


assignment = st.fixed_dictionaries({partition: st.none() | st.integers(0, ROWS - 1) for partition in PARTITIONS})


@given(st.lists(assignment, max_size=8))
def test_every_array_of_owners_equals_its_assignment(assignments: list[dict[tuple[str, int], int | None]]) -> None:
    arrays = owner_arrays(changes(assignments), rows=ROWS)
    for found, wanted in zip(decoded(arrays), assignments, strict=True):
        assert {name: row for name, row in found.items() if row is not None} == {
            name: row for name, row in wanted.items() if row is not None
        }


def test_few_changes_are_stored_as_changes_and_many_as_a_whole() -> None:
    first = dict.fromkeys(PARTITIONS, 0)
    arrays = owner_arrays(changes([first, first | {("a", 0): 1}, dict.fromkeys(PARTITIONS, 2)]), rows=ROWS)
    assert arrays.is_whole == [1, 0, 1]
    assert len(arrays.owners) == 2 * len(PARTITIONS) + 1
    assert arrays.owners.typecode == "B"


def test_no_assignments_are_no_arrays() -> None:
    arrays = owner_arrays([], rows=0)
    assert (arrays.topics, arrays.starts.tolist()) == ([], [0])
