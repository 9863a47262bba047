"""The pipeline's tables by name; what is in them: tests/spark."""

from ottla.spark.pipelines.offset_commits import PIPELINE
from ottla.spark.schemas import OFFSET_COMMITS


def test_every_column_of_a_commit_is_asked_for_and_a_stream_only_adds():
    assert set(OFFSET_COMMITS.fieldNames()) <= set(PIPELINE.inputs["group_records"].fieldNames())
    assert PIPELINE.appended == PIPELINE.outputs
