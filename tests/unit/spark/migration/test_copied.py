"""Summaries of target partitions; reading is tested in tests/spark/test_migrate.py."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.arrow.decoder import HEADER_TYPE
from ottla.spark.migration.chunks import NO_OFFSETS, Checksum, checksum
from ottla.spark.migration.copied import SUMMARIES, Contents, Place, Summary, Tally, summary_of
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER, Extent, MigrationError

SOURCES = 3


def records(first: int, places: list[tuple[int, int] | None]) -> pa.RecordBatch:
    """Records of a target partition from the offset `first` on; None for one that is foreign."""
    headers = [[] if place is None else [{"key": SOURCE_HEADER, "value": b"wide:%d:%d" % place}] for place in places]
    offsets = pa.array(range(first, first + len(places)), pa.int64())
    return pa.RecordBatch.from_pydict({"offset": offsets, "headers": pa.array(headers, HEADER_TYPE)})


def summary(
    batches: list[list[tuple[int, int] | None]], committed: tuple[tuple[int, ...], ...] = (), starts: tuple[int, ...] = (0,) * SOURCES
) -> Summary:
    tally, at = Tally(starts, committed), 0
    for batch in batches:
        tally.add("wide", records(at, batch))
        at += len(batch)
    names = SUMMARIES.fieldNames()
    return summary_of(dict(zip(names, (7, 0, at, *tally.row()), strict=True)))


def of(*offsets: int) -> Checksum:
    return checksum(np.array(offsets, np.int64))


def test_the_source_offsets_of_each_source_partition() -> None:
    found = summary([[(0, 3), (2, 1)], [(0, 9), (2, 4), (0, 10)]])
    expected = {"lowest": (3, NOTHING, 1), "highest": (10, NOTHING, 4), "counts": (3, 0, 2)}
    assert found == Summary(partition=7, start=0, end=5, records=5, checksums=(of(3, 9, 10), NO_OFFSETS, of(1, 4)), **expected)


def test_what_the_source_no_longer_has_is_in_no_checksum() -> None:
    found = summary([[(0, 3), (2, 1)], [(0, 9), (2, 4)]], starts=(9, 0, 5))
    assert (found.counts, found.checksums) == ((2, 0, 2), (of(9), NO_OFFSETS, NO_OFFSETS))


def test_a_foreign_record_is_named_and_not_counted() -> None:
    found = summary([[(0, 3)], [None, (0, 4), None]])
    assert (found.foreign, found.records) == (1, 2)
    assert summary([[(SOURCES, 0)]]).foreign == 0


def test_a_record_that_comes_twice_or_too_late_is_named() -> None:
    assert summary([[(0, 3), (1, 3), (0, 3)]]).disordered == 2
    assert summary([[(0, 3), (0, 5)], [(1, 1), (0, 4), (0, 2)]]).disordered == 3
    assert summary([[(0, 3), (1, 1), (0, 4)]]).disordered == NOTHING


PLACES = st.lists(st.lists(st.tuples(st.integers(0, SOURCES - 1), st.integers(0, 20)), max_size=10), max_size=4)
COMMITTED = st.lists(st.tuples(*[st.integers(0, 20)] * SOURCES), max_size=3).map(tuple)


@given(PLACES, COMMITTED)
def test_groups_continue_at_their_first_unread_record(batches: list[Any], committed: tuple[tuple[int, ...], ...]) -> None:
    found = summary(batches, committed)
    places = [place for batch in batches for place in batch]
    for number, offsets in enumerate(committed):
        unread = [at for at, (partition, offset) in enumerate(places) if offset >= offsets[partition]]
        assert found.first_unread[number] == (unread[0] if unread else NOTHING)
        assert found.read[number] == len(places) - len(unread)


Places = list[tuple[int, int]]
Committed = tuple[tuple[int, ...], ...]


def contents_summary(target: Places, extent: Extent, committed: Committed = (), partition: int = 0) -> Summary:
    """What a read of these offsets of the target finds."""
    tally = Tally((0,) * SOURCES, committed)
    headers = [[{"key": SOURCE_HEADER, "value": b"wide:%d:%d" % place}] for place in target[extent.start : extent.end]]
    columns = {"offset": pa.array(range(*extent), pa.int64()), "headers": pa.array(headers, HEADER_TYPE)}
    tally.add("wide", pa.RecordBatch.from_pydict(columns))
    return summary_of(dict(zip(SUMMARIES.fieldNames(), (partition, *extent, *tally.row()), strict=True)))


def rising(sources: list[int]) -> Places:
    """A place for each source partition: its next offset; every third offset has no record."""
    offsets, places = [0] * SOURCES, []
    for source in sources:
        offsets[source] += 1 + (offsets[source] % 3 == 1)
        places.append((source, offsets[source]))
    return places


def expected(target: Places, committed: Committed) -> Place:
    found = []
    for offsets in committed:
        unread = [at for at, (partition, offset) in enumerate(target) if offset >= offsets[partition]]
        found.append((unread[0], len(target) - unread[0] - len(unread)) if unread else (NOTHING, 0))
    return Place(*zip(*found, strict=True)) if found else Place((), ())


TARGETS = st.lists(st.integers(0, SOURCES - 1), min_size=1, max_size=40).map(rising)
CONTENTS_COMMITTED = st.lists(st.tuples(*[st.integers(0, 30)] * SOURCES), max_size=3).map(tuple)


@given(TARGETS, st.lists(st.integers(1, 20), max_size=4), CONTENTS_COMMITTED)
def test_groups_are_placed_by_the_parts_that_they_are_in_the_middle_of(target: Places, steps: list[int], committed: Committed) -> None:
    made = Contents("narrow", source_partitions=SOURCES, records_max=4)
    known: list[Summary] = []
    for end in [*(min(step, len(target)) for step in sorted(steps)), len(target)]:
        # What the last read finds is known with the groups' places.
        places = committed if end == len(target) else ()
        known = [contents_summary(target, each, places) for parts in made.new_parts({0: Extent(0, end)}).values() for each in parts]
        made.add(known)
    again = made.unplaced(committed, known).get(0, [])
    known += [contents_summary(target, each, committed) for each in again]
    assert made.places(committed, known) == {0: expected(target, committed)}
    assert made.records(0) == len(target)
    assert made.copied() == {source: (max((o for s, o in target if s == source), default=NOTHING),) for source in range(SOURCES)}
    assert not made.new_parts({0: Extent(0, len(target))})


def test_a_group_costs_a_part_of_each_partition_not_the_whole_topic() -> None:
    target = rising([0, 1, 2] * 1_000)
    made = Contents("narrow", source_partitions=SOURCES, records_max=100)
    (parts,) = made.new_parts({0: Extent(0, len(target))}).values()
    made.add(contents_summary(target, each) for each in parts)
    assert len(parts) == 30
    assert made.unplaced([(720, 720, 720)], []) == {0: [parts[14]]}
    assert made.unplaced([(0, 0, 0)], []) == {0: [parts[0]]}
    assert made.unplaced([(9_999, 9_999, 9_999)], []) == {}


def test_small_parts_are_joined() -> None:
    target, made = rising([0] * 10), Contents("narrow", source_partitions=SOURCES, records_max=4)
    for end in range(1, 11):
        made.add([contents_summary(target, Extent(end - 1, end))])
    assert made.unplaced([(3, 0, 0)], []) == {0: [Extent(0, 4)]}
    assert made.unplaced([(9, 0, 0)], []) == {0: [Extent(4, 8)]}


def added(*parts: Mapping[str, int]) -> None:
    made = Contents("narrow", source_partitions=1)
    for number, part in enumerate(parts):
        values = {"lowest": number, "highest": number, "foreign": NOTHING, "disordered": NOTHING} | part
        low, high = values.pop("lowest"), values.pop("highest")
        lists = {"lowest": (low,), "highest": (high,), "counts": (1,), "checksums": (NO_OFFSETS,)}
        made.add([Summary(partition=0, start=number, end=number + 1, records=1, **lists, **values)])  # type: ignore[arg-type]


def test_records_of_others_and_records_that_come_twice_are_refused() -> None:
    with pytest.raises(MigrationError, match="narrow-0 has a record at offset 5 that is not of this migration"):
        added({"foreign": 5})
    with pytest.raises(MigrationError, match="narrow-0 has a record at offset 6 that was copied before, or is out of order"):
        added({}, {"disordered": 6})
    with pytest.raises(MigrationError, match="narrow-0 has a record between offsets 1 and 2 that was copied before, or is out of order"):
        added({"highest": 7}, {"lowest": 7, "highest": 9})
    added({"highest": 7}, {"lowest": NOTHING, "highest": NOTHING}, {"lowest": 8, "highest": 8})
