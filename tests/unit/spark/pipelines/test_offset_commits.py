"""The pipeline's tables; their rows: tests/spark."""

from ottla.spark.pipelines.offset_commits import PIPELINE
from ottla.spark.schemas import OFFSET_COMMITS


def test_every_column_of_a_commit_is_an_input_and_a_stream_only_appends():
    assert set(OFFSET_COMMITS.fieldNames()) <= set(PIPELINE.inputs["group_records"].fieldNames())
    assert PIPELINE.appended == PIPELINE.outputs
