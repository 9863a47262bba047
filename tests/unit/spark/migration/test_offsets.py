"""Offsets of groups in the target."""

from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.settings import ClientSettings
from ottla.protocol.arrow.partitioning import murmur2_partitions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.chunks import LATEST, PHASE, TARGET, ReadPhases, Routing
from ottla.spark.migration.copied import Place
from ottla.spark.migration.offsets import (
    BEHIND_ALL,
    COLUMNS,
    COUNTS,
    Carried,
    Counts,
    FirstUnread,
    PlaceCounter,
    PlaceReader,
    by_group,
    carry,
    comes_before,
    commit,
    earliest_places,
    first_places,
    forecast,
    phases_of,
    read_positions,
    total_counts,
    with_members,
)
from ottla.spark.migration.values import MURMUR2, NOTHING, Extent, MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source import task_reading
from ottla.spark.source.planning import OffsetRange, ReadTask


def test_a_group_continues_at_its_first_unread_record_or_at_the_end() -> None:
    places = {0: Place(first_unread=(3, NOTHING), replayed=(2, 0)), 1: Place(first_unread=(0, 4), replayed=(0, 1))}
    carried = carry(["a", "b"], places, {0: Extent(0, 9), 1: Extent(0, 5), 2: Extent(6, 6)})
    assert carried == {"a": Carried({0: 3, 1: 0, 2: 6}, 2), "b": Carried({0: 9, 1: 4, 2: 6}, 1)}


def test_partitions_without_a_commit_are_not_read() -> None:
    positions = {"a": {0: 5}, "b": {0: 3, 1: 8}}
    assert by_group(positions, 3) == ((5, 0, 0), (3, 8, 0))


def test_records_that_the_same_groups_have_read_are_one_phase() -> None:
    left = {0: Extent(0, 10), 1: Extent(0, 10), 2: Extent(0, 1)}
    # In order: both, a alone (nine offsets), b alone (eight), none.
    assert phases_of({"a": {0: 9}, "b": {0: 1, 1: 8}}, left) == {
        0: ReadPhases((1, 9), (0, 1, 3)),
        1: ReadPhases((0, 8), (0, 2, 3)),
        2: ReadPhases((0, 0), (0, 2, 3)),
    }
    assert phases_of({"a": {0: 9}, "b": {0: 1, 1: 10}}, left)[0] == ReadPhases((1, 9), (0, 2, 3)), "b alone has read more than a"
    assert phases_of({}, {0: Extent(0, 10)}) == {0: ReadPhases((), (0,))}


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


def test_tasks_count_what_each_group_reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {0: [3, 9, 1, 2, 8, 12, 4, 5], 1: [2, 7, 5, 6]}
    committed = ((5, 1), (2, 4), (8, 0))
    routing = Routing(
        partitions=3,
        partitioner=MURMUR2,
        phases={0: ReadPhases((2, 5, 8), (0, 2, 3, 5)), 1: ReadPhases((0, 1, 4), (1, 2, 4, 5))},
        copied={1: (NOTHING, NOTHING, 2)},
    )
    ranges = [OffsetRange("wide", 0, 0, 4), OffsetRange("wide", 0, 4, 8), OffsetRange("wide", 1, 0, 4)]
    tasks = [ReadTask((each,)) for each in ranges]

    def read(_settings: Any, task: ReadTask) -> Any:
        (part,) = task.ranges
        for first in range(part.start, part.end, 2):  # in several pieces
            yield pa.RecordBatch.from_pydict(
                {
                    "key": pa.array([b"%d" % (each % 5) for each in range(first, first + 2)], pa.binary()),
                    "timestamp": pa.array(times[part.partition][first : first + 2], pa.timestamp("us")),
                    "partition": pa.array([part.partition] * 2, pa.int32()),
                    "offset": pa.array(range(first, first + 2), pa.int64()),
                }
            )

    monkeypatch.setattr(task_reading, "read", read)

    def phase(part: int, offset: int) -> int:
        return routing.phases[part].numbers[bisect_right(routing.phases[part].cuts, offset)]

    targets = murmur2_partitions(pa.array([b"%d" % each for each in range(5)], pa.binary()), 3).tolist()
    placed = [
        (targets[offset % 5], (batch, phase(part, offset), max(times[part][start : offset + 1]), part, offset))
        for batch, (_, part, start, end, _) in zip((0, 1, 0), ranges)
        for offset in range(start, end)
        if (part, targets[offset % 5]) != (1, 2) or offset > 2
    ]
    settings = ReadSettings(client=ClientSettings(bootstrap_servers="h:1"), columns=COLUMNS)
    reader = PlaceReader(settings=settings, tasks=(((0, tasks[0]), (1, tasks[1])), ((0, tasks[2]),)), routing=routing, committed=committed)
    numbers = [pa.RecordBatch.from_pydict({"id": [0, 1]})]
    rows = [row for batch in FirstUnread(reader=reader)(iter(numbers)) for row in batch.to_pylist()]
    unread = [[[BEHIND_ALL] for _ in range(3)] for _ in committed]
    for target, place in placed:
        for group, positions in enumerate(committed):
            if place[-1] >= positions[place[3]]:
                unread[group][target].append(place)
    first = [[min(places) for places in by_target] for by_target in unread]
    assert earliest_places(rows, 3, 3) == first
    counter = PlaceCounter(reader=reader, first=tuple(map(tuple, first)))
    counts = [row for batch in counter(iter(numbers)) for row in batch.to_pylist()]
    expected = {}
    for target in range(3):
        mine = [place for each, place in placed if each == target]
        before = [[place for place in mine if place < first[group][target]] for group in range(3)]
        read_ones = [[place for place in mine if place[-1] < committed[group][place[3]]] for group in range(3)]
        both = [len({*read_ones[group]} & {*before[group]}) for group in range(3)]
        expected[target] = Counts(len(mine), tuple(map(len, before)), tuple(map(len, read_ones)), tuple(both))
    assert total_counts(counts, 3, 3) == expected


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
