"""The pipeline's tables; their rows are compared with the command in tests/spark/test_verdicts.py."""

from ottla.spark.pipelines.verdicts import PIPELINE
from ottla.spark.runner.inputs import TOPICS


def test_a_stream_follows_the_offsets_topic_alone():
    assert [name for name in PIPELINE.inputs if name in TOPICS] == ["group_records"]
    assert list(PIPELINE.outputs) == ["verdicts"]
