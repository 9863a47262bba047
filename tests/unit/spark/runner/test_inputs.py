"""Topics that pipelines read, their end offsets, and errors about unreadable ones, with a stub for the brokers."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.pipelines import pipelines
from ottla.spark.runner import inputs
from ottla.spark.runner.inputs import PAST_S, ClusterInputs, InputError
from ottla.spark.schemas import END_OFFSETS, GROUP_EVENTS_TOPIC, KAFKA, OFFSETS_TOPIC

TOPICS = {
    "t": DescribedTopic("t", {0: 1, 1: None}),
    OFFSETS_TOPIC: DescribedTopic(OFFSETS_TOPIC, {0: 1, 1: 1}, is_internal=True),
}


class Admin:
    """Every partition p has the offsets 5 to 20 + p."""

    failure = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def list_topics(self) -> dict[str, DescribedTopic]:
        return TOPICS

    def describe_topics(self, names: Any) -> dict[str, DescribedTopic | Failure]:
        return {name: TOPICS.get(name, Failure(self.failure)) for name in names}

    def list_offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return {each: 20 + each.partition if timestamp == LATEST else 5 for each in partitions}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    stub, seen = Admin(), []
    monkeypatch.setattr(inputs, "AdminClient", lambda settings, **_: seen.append(settings) or stub)
    return stub


def cluster(spark: Any, **more: Any) -> ClusterInputs:
    return ClusterInputs(spark=spark, bootstrap_servers="b:1", properties={"client.id": "mine"}, now_ms=lambda: 1_500, **more)


@pytest.mark.usefixtures("admin")
def test_a_batch_ends_where_the_topic_ended_before_the_ends_of_others_were_measured():
    spark = Mock()
    pipeline = pipelines()["lag"]
    source = cluster(spark)
    offsets = source.offsets(pipeline)
    assert offsets == {"committed_group_records": {TopicPartition(OFFSETS_TOPIC, 0): (5, 20), TopicPartition(OFFSETS_TOPIC, 1): (5, 21)}}
    frames = source.read(pipeline, offsets)
    assert list(frames) == ["committed_group_records", "end_offsets", "past_end_offsets", "topic_records"]
    options = spark.read.format("ottla").schema().options.call_args.kwargs
    assert json.loads(options.pop("endingOffsets")) == {OFFSETS_TOPIC: {"0": 20, "1": 21}}
    assert options == {
        "subscribe": OFFSETS_TOPIC,
        "kafka.bootstrap.servers": "b:1",
        "kafka.client.id": "mine",
        "kafka.isolation.level": "read_committed",
        "decode": "group_records",
    }
    measured, past, empty = spark.createDataFrame.call_args_list
    assert measured.args == ([("t", 0, 5, 20, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC))], END_OFFSETS)
    rows, schema = past.args
    assert (schema, len(rows)) == (END_OFFSETS, len(PAST_S))
    assert rows[0] == ("t", 0, None, 5, datetime(1969, 12, 31, 23, 59, 51, 500_000, UTC)), "ten seconds ago the log ended at 5"
    assert empty.args == ([], pipeline.inputs["topic_records"])


def test_a_log_without_younger_records_had_ended_where_it_does_now(admin: Admin, monkeypatch: pytest.MonkeyPatch):
    limits = {LATEST: 7, EARLIEST: 7}
    monkeypatch.setattr(admin, "list_offsets", lambda partitions, timestamp: dict.fromkeys(partitions, limits.get(timestamp, -1)))
    spark = Mock()
    cluster(spark).measure(pipelines()["group_status"])
    _, past = spark.createDataFrame.call_args_list
    assert {row[3] for row in past.args[0]} == {7}


def test_events_are_read_where_there_are_any(admin: Admin, monkeypatch: pytest.MonkeyPatch):
    spark, pipeline = Mock(), pipelines()["verdicts"]
    cluster(spark).measure(pipeline)
    assert spark.createDataFrame.call_args.args == ([], KAFKA)
    monkeypatch.setitem(TOPICS, GROUP_EVENTS_TOPIC, DescribedTopic(GROUP_EVENTS_TOPIC, {0: 1}, is_internal=True))
    cluster(spark).measure(pipeline)
    options = spark.read.format("ottla").schema().options.call_args.kwargs
    assert (options["subscribe"], json.loads(options["endingOffsets"])) == (GROUP_EVENTS_TOPIC, {GROUP_EVENTS_TOPIC: {"0": 20}})


@pytest.mark.usefixtures("admin")
def test_a_stream_begins_at_the_earliest_record_and_takes_options():
    spark = Mock()
    schema = pipelines()["rebalances"].inputs["group_event_records"]
    cluster(spark).stream("group_event_records", schema, {"maxOffsetsPerTrigger": "5"})
    options = spark.readStream.format("ottla").schema().options.call_args.kwargs
    assert options["subscribe"] == GROUP_EVENTS_TOPIC
    assert (options["startingOffsets"], options["maxOffsetsPerTrigger"]) == ("earliest", "5")
    assert "decode" not in options


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {GROUP_EVENTS_TOPIC}: only Ottla's own broker publishes group events"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no permission to read the topic {GROUP_EVENTS_TOPIC}: it needs the ACL operations"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic {GROUP_EVENTS_TOPIC} cannot be read: INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_what_cannot_be_read_is_said(admin: Admin, failure: ErrorCode, sentence: str):
    admin.failure = failure
    with pytest.raises(InputError, match=sentence):
        cluster(SimpleNamespace()).offsets(pipelines()["rebalances"])


def test_timestamps_of_a_topic_that_is_not_there(admin: Admin):
    with pytest.raises(InputError, match=r"there is no topic nowhere$"):
        cluster(Mock(), topics=("nowhere",)).measure(pipelines()["lag"])
