"""Tables that a micro-batch appends to, under its number, with stubs for Spark. With Spark: tests/spark."""

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from ottla.spark.pipelines import Pipeline, PipelineStep, pipelines
from ottla.spark.runner.pipeline_run import PipelineRun
from ottla.spark.runner.pipeline_stream import PipelineStream, followed, follows
from ottla.spark.runner.tables import TableError
from ottla.spark.schemas import KAFKA

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
