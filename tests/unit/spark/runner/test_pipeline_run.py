"""Steps in their order, with plain lists for tables."""

from collections import Counter

from ottla.core.discovery import drop_ins
from ottla.spark import pipelines as package
from ottla.spark.pipelines import Pipeline, PipelineStep, pipelines
from ottla.spark.runner.inputs import TOPICS
from ottla.spark.runner.pipeline_run import run
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
