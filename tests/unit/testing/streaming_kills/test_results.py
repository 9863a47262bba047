"""What members have processed, from the tables that they have left."""

from pathlib import Path

import pytest

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.keyed_table import KeyedTable
from ottla.testing.streaming_kills.results import KeyedResult, SinkResult

PLACES = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def tables(tmp_path: Path) -> list[KeyedTable]:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.append(KeyedTable(tmp_path / name))
    return found


@pytest.fixture
def result(tables: list[KeyedTable], tmp_path: Path) -> KeyedResult:
    return KeyedResult([tmp_path / "a", tmp_path / "b"], "t", 2)


def test_a_record_is_once_in_the_union_however_often_it_was_written(tables: list[KeyedTable], result: KeyedResult):
    assert (result.rows(), result.processed(), result.written_again()) == ({}, {}, 0)
    tables[0].write([("t", 0, 0, "x"), ("t", 0, 1, "y")])
    tables[1].write([("t", 0, 1, "y"), ("t", 1, 4, "z")])
    tables[1].write([("t", 1, 4, "z")])
    assert result.rows() == {(0, 0, "x"): 1, (0, 1, "y"): 1, (1, 4, "z"): 1}
    assert result.processed() == {PLACES[0]: 2, PLACES[1]: 5}
    assert result.written_again() == 2


def test_a_record_with_two_values_is_there_with_both(tables: list[KeyedTable], result: KeyedResult):
    tables[0].write([("t", 0, 0, "x")])
    tables[1].write([("t", 0, 0, "other")])
    assert result.rows() == {(0, 0, "x"): 1, (0, 0, "other"): 1}


def test_a_query_that_has_done_nothing_has_left_nothing(tmp_path: Path):
    result = SinkResult(tmp_path)
    assert (result.rows(), result.processed(), result.written_again()) == ({}, {}, 0)
