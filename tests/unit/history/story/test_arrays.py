"""Arrays of a story, and owners and lag in them."""

from array import array
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.story.arrays import (
    NOTHING,
    AssignmentChange,
    LagHistory,
    OwnerArrays,
    encode_lag,
    lag_code,
    owner_arrays,
    pack,
    plain,
    unpack,
    unsigned,
)
from ottla.protocol.model import TopicPartition

ROWS = 4
PARTITIONS = [("a", number) for number in range(5)] + [("b", 7), ("b", 900)]


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**32 - 1)) | st.text(), max_size=4))
def test_a_container_gives_back_its_document(values: dict[str, object]) -> None:
    document = {
        name: unsigned(value, largest=max(value, default=0)) if isinstance(value, list) else value for name, value in values.items()
    }
    assert plain(unpack(pack(document))) == plain({key: text(value) for key, value in document.items()} if document else document)


def text(value: object) -> object:
    """Lone surrogates cannot be written."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def test_arrays_lie_at_multiples_of_eight_in_little_endian() -> None:
    packed = pack({"a": array("B", [1]), "b": array("H", [0x0102])})
    assert len(packed) % 8 == 0
    assert packed[-16:] == bytes([1, 0, 0, 0, 0, 0, 0, 0]) + bytes([2, 1, 0, 0, 0, 0, 0, 0])


def test_the_smallest_type_is_taken() -> None:
    assert [unsigned([], largest=largest).typecode for largest in (255, 256, 65_536)] == ["B", "H", "I"]
    with pytest.raises(ValueError, match="32 bits"):
        unsigned([], largest=2**32)


@pytest.mark.parametrize("data", [b"", b"{}", b"OTLASTRY\xff\xff\xff\xff"])
def test_other_bytes_are_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(ValueError, match="no story"):
        unpack(data)


def test_what_is_neither_json_nor_an_array_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        pack({"a": {1}})


@given(st.integers(1, 2**24))
def test_a_code_is_at_most_four_percent_beside_the_lag(lag: int) -> None:
    meant = 2 ** ((lag_code(lag) - 2) / 10)
    assert abs(meant - lag) <= lag * 0.04


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_codes_grow_with_the_lag(one: int, other: int) -> None:
    assert (lag_code(one) <= lag_code(other)) or one > other


def test_unknown_none_and_endless_lag_have_codes_of_their_own() -> None:
    assert [lag_code(lag) for lag in (-1, 0, 1, 10**30)] == [0, 1, 2, 254]


def test_the_worst_partitions_come_first_and_the_sum_is_exact() -> None:
    rows = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [-1, 1_000], TopicPartition("t", 2): [50, 0]}
    encoded = encode_lag(LagHistory(1_000, 500, rows), [("t", [0, 2])], worst=2)
    assert encoded["names"] == ["t-1", "t-2"]
    assert encoded["partitions"] == [-1, 1]
    assert encoded["codes"].tolist() == [0, lag_code(1_000), lag_code(50), 1]
    assert (encoded["sum"], encoded["count"], encoded["of_partitions"]) == ([51, 1_002], 2, 3)


def test_short_rows_end_unknown() -> None:
    rows = {TopicPartition("t", 0): [4], TopicPartition("t", 1): [1, 2, 3]}
    assert encode_lag(LagHistory(0, 1, rows), [])["codes"].tolist()[:3] == [lag_code(4), 0, 0]


def test_no_rows_are_no_lag() -> None:
    assert encode_lag(LagHistory(0, 1, {}), [])["count"] == 0


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
