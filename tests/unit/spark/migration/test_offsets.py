"""Offsets of groups in the target."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.chunks import LATEST, PHASE, TARGET
from ottla.spark.migration.copied import Place
from ottla.spark.migration.offsets import (
    BEHIND_ALL,
    COUNTS,
    Carried,
    Counts,
    by_group,
    by_partition,
    carry,
    comes_before,
    commit,
    earliest_places,
    first_places,
    forecast,
    read_positions,
    total_counts,
    with_members,
)
from ottla.spark.migration.values import NOTHING, Extent, MigrationError


def test_a_group_continues_at_its_first_unread_record_or_at_the_end() -> None:
    places = {0: Place(first_unread=(3, NOTHING), replayed=(2, 0)), 1: Place(first_unread=(0, 4), replayed=(0, 1))}
    carried = carry(["a", "b"], places, {0: Extent(0, 9), 1: Extent(0, 5), 2: Extent(6, 6)})
    assert carried == {"a": Carried({0: 3, 1: 0, 2: 6}, 2), "b": Carried({0: 9, 1: 4, 2: 6}, 1)}


def test_partitions_without_a_commit_are_not_read() -> None:
    positions = {"a": {0: 5}, "b": {0: 3, 1: 8}}
    assert by_partition(positions, 3) == {0: (3, 5), 1: (0, 8), 2: (0, 0)}
    assert by_group(positions, 3) == ((5, 0, 0), (3, 8, 0))


def test_a_forecast_counts_what_comes_behind_what_is_there() -> None:
    places = {0: Place(first_unread=(3, NOTHING), replayed=(2, 0))}
    counts = {0: Counts(10, before=(0, 4), read=(6, 7), read_before=(0, 4)), 1: Counts(1, before=(1, 0), read=(1, 0), read_before=(1, 0))}
    assert forecast(["a", "b"], places, {0: Extent(0, 9), 1: Extent(5, 5)}, counts) == {
        "a": Carried({0: 3, 1: 6}, 8),
        "b": Carried({0: 13, 1: 5}, 3),
    }


SMALL = st.integers(0, 3)
ROWS = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=12)


def records(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """Target partition, phase and latest time; offsets count from 0, phases and times rise with them."""
    ordered = sorted((phase, latest) for _, phase, latest in rows)
    columns = {
        TARGET: pa.array([target for target, _, _ in rows], pa.int32()),
        PHASE: pa.array([phase for phase, _ in ordered], pa.int32()),
        LATEST: pa.array([latest for _, latest in ordered], pa.int64()),
        "offset": pa.array(range(len(rows)), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def places(batch: int, partition: int, of: pa.RecordBatch) -> list[tuple[int, int, int, int, int]]:
    columns = (of.column(name).to_pylist() for name in (PHASE, LATEST, "offset"))
    return [(batch, phase, latest, partition, offset) for phase, latest, offset in zip(*columns, strict=True)]


@given(ROWS, st.data(), SMALL, SMALL)
def test_places_compare_as_tuples(rows: list[tuple[int, int, int]], data: st.DataObject, batch: int, partition: int) -> None:
    of = records(rows)
    place = st.tuples(SMALL, SMALL, SMALL, SMALL, SMALL) | st.sampled_from([(-1, 0, 0, 0, 0), BEHIND_ALL])
    limits = [data.draw(place) for _ in rows]
    found = comes_before(batch, partition, of, np.array(limits, np.int64).reshape(len(rows), 5).T)
    assert found.tolist() == [each < limit for each, limit in zip(places(batch, partition, of), limits, strict=True)]


@given(ROWS, st.integers(0, 13))
def test_the_first_unread_record_of_each_target_partition(rows: list[tuple[int, int, int]], committed: int) -> None:
    of = records(rows)
    expected: dict[int, tuple[int, ...]] = {}
    for target, place in zip(of.column(TARGET).to_pylist(), places(7, 1, of), strict=True):
        if place[-1] >= committed:
            expected.setdefault(target, place)
    assert dict(first_places(7, 1, of, committed)) == expected


def test_the_results_of_tasks_are_put_together() -> None:
    rows = [{TARGET: 1, "group": 0, "place": [2, 0, 0, 0, 0]}, {TARGET: 1, "group": 0, "place": [1, 9, 9, 9, 9]}]
    assert earliest_places(rows, 1, 2) == [[BEHIND_ALL, (1, 9, 9, 9, 9)]]
    names = COUNTS.fieldNames()
    counts = [dict(zip(names, (1, records, [before], [4], [1]), strict=True)) for records, before in ((5, 2), (6, 3))]
    assert total_counts(counts, 1, 2) == {0: Counts(0, (0,), (0,), (0,)), 1: Counts(11, (5,), (8,), (2,))}


def offsets(topic: str, *committed: int) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(topic, number): CommittedOffset(offset) for number, offset in enumerate(committed)}


def test_only_offsets_of_the_source_count(admin: Any) -> None:
    admin.commits = {"b": offsets("wide", 5, -1, 7), "a": offsets("wide", 1) | offsets("other", 9), "c": offsets("other", 9)}
    assert list(read_positions(admin, "wide", None).items()) == [("a", {0: 1}), ("b", {0: 5, 2: 7})]
    assert read_positions(admin, "wide", ["b"]) == {"b": {0: 5, 2: 7}}
    assert read_positions(admin, "wide", []) == {}


def test_a_named_group_without_offsets_is_refused(admin: Any) -> None:
    with pytest.raises(MigrationError, match="group x has no committed offsets for wide: leave it out of --groups"):
        read_positions(admin, "wide", ["x"])


def test_offsets_that_cannot_be_read_end_the_migration(admin: Any) -> None:
    admin.commits = {"g": Failure(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
    with pytest.raises(MigrationError, match="the offsets of group g cannot be read: COORDINATOR_NOT_AVAILABLE"):
        read_positions(admin, "wide", None)
    with pytest.raises(MigrationError, match="the offsets of group g cannot be read: COORDINATOR_NOT_AVAILABLE"):
        commit(admin, "narrow", {"g": Carried({0: 1}, 0)})


def test_groups_with_members(admin: Any) -> None:
    admin.states = {"a": "Stable", "b": "Empty", "c": "Dead", "d": "PreparingRebalance"}
    assert with_members(admin, ["a", "b", "c", "d", "gone"]) == {"a": "Stable", "d": "PreparingRebalance"}
    admin.failures["e"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(MigrationError, match="group e cannot be described: GROUP_AUTHORIZATION_FAILED"):
        with_members(admin, ["e"])


def test_no_offset_moves_back(admin: Any) -> None:
    admin.commits = {"g": offsets("narrow", 8, 3)}
    commit(admin, "narrow", {"g": Carried({0: 5, 1: 4, 2: 0}, 0)})
    assert admin.commits["g"] == offsets("narrow", 8, 4, 0)
    commit(admin, "narrow", {"g": Carried({0: 5}, 0)})
    assert admin.commits["g"] == offsets("narrow", 8, 4, 0)


def test_a_refused_commit_is_reported_with_what_to_do(admin: Any) -> None:
    admin.refused = "g"
    with pytest.raises(
        MigrationError, match=r"offsets of group g were not committed: UNKNOWN_MEMBER_ID\. Stop the group's members, and run"
    ):
        commit(admin, "narrow", {"g": Carried({0: 5}, 0)})
