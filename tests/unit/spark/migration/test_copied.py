"""Summaries of target partitions; reading is tested in tests/spark/test_migrate.py."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.columnar.decoding.record_batch_decoder import HEADER_TYPE
from ottla.spark.migration.checksums import NO_OFFSETS, Checksum, checksum
from ottla.spark.migration.copied import SUMMARIES, Summary, Tally, summary_of
from ottla.spark.migration.values import NOTHING, SOURCE_HEADER

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
