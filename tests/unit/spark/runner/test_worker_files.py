"""Files that a task writes: row groups, hidden until they are whole, replaced by a repeated task."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import ParquetFile, read_table

from ottla.spark.runner import worker_files
from ottla.spark.runner.worker_files import write_task


class Numbers:
    """A task is a number of batches of two rows."""

    def partitions(self) -> list[int]:
        return [2]

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        return (pa.RecordBatch.from_pydict({"group": ["g", "h"], "number": [at, at + 1]}) for at in range(0, 2 * partition, 2))


def even_and_odd(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in batches:
        yield "even", batch.slice(0, 1)
        yield "odd", batch.slice(1)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("even", "odd", "nothing")}
    for folder in found.values():
        folder.mkdir()
    return found


def test_each_table_gets_a_file_of_the_task(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_files, "ROWS_MAX", 2)
    for _ in range(2):
        write_task((7, 3), reader=Numbers(), in_arrow=even_and_odd, folders=folders)
    assert [path.name for folder in folders.values() for path in folder.iterdir()] == ["part-00007.parquet"] * 2
    assert read_table(folders["even"]).to_pydict() == {"group": ["g"] * 3, "number": [0, 2, 4]}
    assert ParquetFile(folders["odd"] / "part-00007.parquet").num_row_groups == 2


def test_a_task_that_fails_leaves_no_file_that_is_read(folders: dict[str, Path]):
    def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield from even_and_odd(batches)
        raise ValueError("cut")

    with pytest.raises(ValueError, match="cut"):
        write_task((0, 3), reader=Numbers(), in_arrow=failing, folders=folders)
    assert not list(folders["even"].glob("[!.]*"))
