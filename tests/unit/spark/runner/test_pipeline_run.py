"""Steps in their order, with plain lists for tables."""

from collections import Counter
from typing import Any
from unittest.mock import Mock, patch

from ottla.core.discovery import drop_ins
from ottla.spark import pipelines as package
from ottla.spark.pipelines import Pipeline, PipelineStep, pipelines
from ottla.spark.runner.inputs import TOPICS
from ottla.spark.runner.pipeline_run import PipelineRun, run
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
