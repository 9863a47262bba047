"""The order of a group's rows; they are in tests/spark/test_verdicts.py."""

from ottla.spark.verdicts.spans import EVENT_ROWS, OFFSETS_TOPIC_ROWS, ORDER


def test_a_record_comes_before_the_commits_that_follow_it():
    assert ORDER == ("source", "partition", "position", "is_spans")
    assert OFFSETS_TOPIC_ROWS < EVENT_ROWS
