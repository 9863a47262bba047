"""Steps in their order, with plain lists for tables."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from pyarrow.parquet import ParquetFile, read_table

from ottla.discovery import drop_ins
from ottla.spark import pipelines as package
from ottla.spark.pipelines import Pipeline, PipelineStep, pipelines
from ottla.spark.runner import pipeline_run as worker_files
from ottla.spark.runner.inputs import TOPICS
from ottla.spark.runner.pipeline_run import PipelineRun, PipelineStream, followed, follows, run, write_task
from ottla.spark.runner.tables import TableError
from ottla.spark.schemas import KAFKA, REBALANCES


def test_each_step_gets_its_inputs_in_order_and_only_outputs_come_back():
    pipeline = Pipeline(
        inputs={"numbers": KAFKA, "more": KAFKA},
        outputs={"all": REBALANCES},
        appended={},
        steps=(
            PipelineStep(lambda numbers: [number * 2 for number in numbers], ("numbers",), "doubled"),
            PipelineStep(lambda more, doubled: more + doubled, ("more", "doubled"), "all"),
        ),
        overview=lambda frame: frame,
    )
    assert run(pipeline, {"numbers": [1, 2], "more": [9], "unused": []}) == {"all": [9, 2, 4]}


class Frame:
    """Counts how often it is kept."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kept: list[str] = []

    def persist(self) -> "Frame":
        self.kept.append("persist")
        return self

    def unpersist(self) -> None:
        self.kept.append("unpersist")


def derived(groups: tuple[str, ...] = ()) -> tuple[list[str], Frame]:
    """What is written by a pipeline whose second output is made of the first, and the frame of its first step."""
    first = Frame("first")
    written: list[str] = []
    pipeline: Any = Pipeline(
        inputs={},
        outputs={"one": KAFKA, "two": KAFKA},
        appended={},
        steps=(
            PipelineStep(lambda: first, (), "first"),
            PipelineStep(lambda each: f"{each.text}>one", ("first",), "one"),
            PipelineStep(lambda each: f"{each}>two", ("one",), "two"),
        ),
        overview=lambda frame: frame,
        reused=("first",),
    )

    def write(name: str, frame: Any, schema: Any) -> str:
        written.append(frame)
        assert first.kept == ["persist"]
        return f"stored {name}"

    run_once = PipelineRun(pipeline=pipeline, inputs=Mock(), tables=Mock(write=write), groups=groups)
    with patch.object(PipelineRun, "of_groups", lambda self, frame: frame):
        assert run_once.derive({}) == {"one": "stored one", "two": "stored two"}
    return written, first


def test_what_was_computed_once_is_computed_no_more():
    written, first = derived()
    assert written == ["first>one", "stored one>two"]
    assert first.kept == ["persist", "unpersist"]


def test_a_table_of_some_groups_stands_for_no_input():
    assert derived(("g",))[0] == ["first>one", "first>one>two"]


def test_every_pipeline_is_found_by_its_file_and_can_be_fed():
    assert set(pipelines()) == set(drop_ins(package, "PIPELINE", Pipeline)) >= {"rebalances"}
    for pipeline in pipelines().values():
        made = set(pipeline.inputs)
        for step in pipeline.steps:
            assert set(step.inputs) <= made
            made.add(step.output)
        assert set(pipeline.outputs) <= made
        assert set(pipeline.inputs) <= {*TOPICS, "end_offsets", "past_end_offsets", "topic_records", "group_events_if_any"}


def test_pipelines_in_one_folder_share_no_table():
    tables = Counter(table for pipeline in pipelines().values() for table in {*pipeline.outputs, *pipeline.appended})
    assert set(tables.values()) == {1}, tables


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


PIPELINE = Pipeline(
    inputs={"group_records": KAFKA, "end_offsets": KAFKA},
    outputs={"sums": KAFKA},
    appended={"doubled": KAFKA, "measured": KAFKA},
    steps=(
        PipelineStep(lambda records: [each * 2 for each in records], ("group_records",), "doubled"),
        PipelineStep(lambda ends: ends, ("end_offsets",), "measured"),
        PipelineStep(lambda doubled, measured: [sum(doubled), sum(measured)], ("doubled", "measured"), "sums"),
    ),
    overview=lambda frame: frame,
)


class Tables:
    """Records the calls; reads fixed rows."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.lost: set[str] = set()

    def clear(self, name: str, schema: Any) -> None:
        self.done.append(("clear", name))

    def check_continued(self, name: str) -> None:
        if name in self.lost:
            raise TableError(f"{name} is lost")

    def append(self, name: str, frame: Any, schema: Any, part: int) -> None:
        self.done.append(("append", name, frame, part))

    def read(self, name: str, schema: Any) -> Any:
        return [10, 20]

    def write(self, name: str, frame: Any, schema: Any) -> Any:
        self.done.append(("write", name, frame))
        return frame


def stream() -> tuple[PipelineStream, Tables]:
    tables, inputs = Tables(), Mock()
    inputs.now_ms.return_value = 1234
    inputs.measure.return_value = {"end_offsets": [7]}
    run: Any = PipelineRun(pipeline=PIPELINE, inputs=inputs, tables=tables)  # type: ignore[arg-type]
    return PipelineStream(run, {}), tables


def test_a_micro_batch_adds_to_what_follows_from_its_records_and_the_first_begins_again():
    each, tables = stream()
    each.add([1, 2], 0)  # type: ignore[arg-type]
    each.add([3], 1)  # type: ignore[arg-type]
    assert tables.done == [("clear", "doubled"), ("append", "doubled", [2, 4], 0), ("append", "doubled", [6], 1)]


def test_a_stream_does_not_continue_behind_rows_that_are_lost():
    each, tables = stream()
    tables.lost.add("doubled")
    with pytest.raises(TableError, match="doubled is lost"):
        each.add([3], 1)  # type: ignore[arg-type]
    assert tables.done == []


def test_a_stream_needs_a_checkpoint():
    each, tables = stream()
    tables.checkpoint = lambda name: None  # type: ignore[attr-defined]
    with pytest.raises(TableError, match="needs a folder for its checkpoint"):
        each.start({"availableNow": True})


def test_a_refresh_measures_and_makes_the_rest_of_what_is_kept():
    each, tables = stream()
    assert each.refresh() == {"sums": [30, 30]}
    assert tables.done == [("append", "measured", [7], 1234), ("write", "sums", [30, 30])]


def test_a_refresh_measures_and_reads_after_the_micro_batch_that_is_being_written(monkeypatch: pytest.MonkeyPatch):
    each, tables = stream()
    beside = threading.Thread(target=each.refresh, daemon=True)

    def append(name: str, *_arguments: Any) -> None:
        if not beside.ident:
            beside.start()
            beside.join(0.05)
            assert not each.run.inputs.measure.called  # type: ignore[attr-defined]
        tables.done.append(name)

    monkeypatch.setattr(tables, "append", append)
    each.add([1, 2], 1)  # type: ignore[arg-type]
    beside.join(60)
    assert tables.done == ["doubled", "measured", ("write", "sums", [30, 30])]


def test_every_pipeline_follows_one_topic_and_keeps_something_of_it():
    for name, pipeline in pipelines().items():
        assert any(follows(pipeline, table) for table in pipeline.appended), name
        assert followed(pipeline) in pipeline.inputs
    assert not follows(pipelines()["lag"], "end_offset_history")
