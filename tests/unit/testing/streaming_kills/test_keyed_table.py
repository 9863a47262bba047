"""The keyed table: a record that is written again replaces itself, and a batch is there whole or not at all."""

from pathlib import Path

import pytest

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.keyed_table import KeyedTable


@pytest.fixture
def table(tmp_path: Path) -> KeyedTable:
    return KeyedTable(tmp_path)


def test_a_batch_that_is_written_again_changes_nothing_but_the_number_of_writes(table: KeyedTable):
    assert table.writes() == {}
    table.write([("t", 0, 0, "a"), ("t", 0, 1, "b")])
    table.write([("t", 0, 1, "b"), ("t", 1, 0, "c")])
    assert table.writes() == {(0, 0, "a"): 1, (0, 1, "b"): 2, (1, 0, "c"): 1}


def test_a_batch_is_written_whole_or_not_at_all(table: KeyedTable):
    table.write([("t", 0, 0, "a")])

    def records():
        yield "t", 0, 1, "b"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        table.write(records())
    assert table.writes() == {(0, 0, "a"): 1}


def test_a_partition_ends_behind_its_last_record(table: KeyedTable):
    partitions = [TopicPartition("t", number) for number in range(3)]
    assert table.ends(partitions) == {}
    table.write([("t", 0, 7, "a"), ("t", 0, 3, "b"), ("t", 2, 0, "c"), ("u", 1, 0, "d")])
    assert table.ends(partitions) == {partitions[0]: 8, partitions[2]: 1}


def test_another_process_reads_while_one_writes(table: KeyedTable, tmp_path: Path):
    other = KeyedTable(tmp_path)

    def records():
        yield "t", 0, 0, "a"
        assert other.writes() == {}, "what is not committed yet is not there, and nothing waits"

    table.write(records())
    assert other.writes() == {(0, 0, "a"): 1}
