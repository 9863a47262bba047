"""A file sink's table and a checkpoint, read from files as Spark writes them."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from ottla.testing.streaming_kills.files import Table, committed_files, planned_generation, processed_offsets


class Sink:
    """Writes a table as Spark's file sink does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "_spark_metadata").mkdir(parents=True)

    def file(self, name: str, *rows: tuple[int, int, str]) -> dict[str, object]:
        path = self.directory / name
        columns = {"partition": [row[0] for row in rows], "offset": [row[1] for row in rows], "value": [row[2] for row in rows]}
        parquet.write_table(pyarrow.table(columns), path)
        return {"path": f"file://{path}".replace(" ", "%20"), "size": 1, "action": "add"}

    def commit(self, entry: str, *files: dict[str, object]) -> None:
        (self.directory / "_spark_metadata" / entry).write_text("\n".join(["v1", *(json.dumps(each) for each in files)]))
        (self.directory / "_spark_metadata" / f".{entry}.crc").write_bytes(b"crc")


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "a table")


def test_a_table_is_what_the_sink_has_committed_and_nothing_else(sink: Sink):
    first = sink.file("a.parquet", (0, 0, "x"), (1, 0, "y"))
    sink.file("left-by-a-killed-task.parquet", (0, 0, "x"))
    sink.commit("0", first)
    table = Table(sink.directory)
    assert table.rows() == {(0, 0, "x"): 1, (1, 0, "y"): 1}
    sink.commit("1", sink.file("b.parquet", (0, 1, "z"), (0, 0, "x")))
    assert table.rows() == {(0, 0, "x"): 2, (1, 0, "y"): 1, (0, 1, "z"): 1}


def test_a_compacted_entry_stands_for_all_before_it(sink: Sink):
    files = [sink.file(f"{number}.parquet", (0, number, "")) for number in range(12)]
    for number in range(9):
        sink.commit(str(number), files[number])
    sink.commit("9.compact", *files[:10])
    sink.commit("10", files[10])
    (sink.directory / "_spark_metadata" / ".11.uuid.tmp").write_text("v1\n")
    assert [Path(path).name for path in sorted(committed_files(sink.directory))] == sorted(f"{number}.parquet" for number in range(11))


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path):
    assert Table(tmp_path / "table").rows() == {}


def test_processed_is_the_last_batch_that_is_committed_not_the_last_that_is_planned(tmp_path: Path):
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert processed_offsets(tmp_path) == {}
    for batch in range(11):
        offsets = json.dumps({"t": {"0": 10 * batch, "1": 5}, "#topic_ids": {"t": "AAAAAAAAAAAAAAAAAAAAAA"}})
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}\n{{"u":{{"0":7}}}}')
        if batch < 10:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
            (tmp_path / "commits" / f".{batch}.crc").write_bytes(b"crc")
    assert processed_offsets(tmp_path) == {("t", 0): 90, ("t", 1): 5, ("u", 0): 7}


def test_a_batch_of_a_member_was_planned_in_a_generation(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    assert planned_generation(tmp_path) == -1
    for batch in (9, 10):
        offsets = json.dumps({"t": {"0": batch}, "#topic_ids": {}, "#member": {"starts": {}, "generation": 2 * batch, "member_id": "m"}})
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
        (tmp_path / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    assert planned_generation(tmp_path) == 20
