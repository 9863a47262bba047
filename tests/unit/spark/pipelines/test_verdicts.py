"""The pipeline `verdicts`."""

from ottla.spark.pipelines.verdicts import EVENT_ROWS, OFFSETS_TOPIC_ROWS, ORDER, PIPELINE
from ottla.spark.runner.inputs import TOPICS


def test_a_record_comes_before_the_commits_that_follow_it():
    assert ORDER == ("source", "partition", "position", "is_spans")
    assert OFFSETS_TOPIC_ROWS < EVENT_ROWS


def test_a_stream_follows_the_offsets_topic_alone():
    assert [name for name in PIPELINE.inputs if name in TOPICS] == ["group_records"]
    assert list(PIPELINE.outputs) == ["verdicts", "incidents"]
