"""Differences from the JVM connector: each case shows both formats. First intended ones, then limits of Python sources."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from ottla.cli.main import main


def test_unknown_and_unsupported_options_are_not_ignored(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, ["a"])
    typo, meaningless = {"startingOffset": "latest"}, {"endingTimestamp": "1", "startingOffsets": "earliest"}
    if not anywhere.is_ours:
        assert anywhere.rows(subscribe=topic, **typo) == anywhere.drain(subscribe=topic, **meaningless).rows == [(0, 0, "a")]
        return
    assert "startingoffset" in anywhere.failure_of(lambda: anywhere.rows(subscribe=topic, **typo)).lower()
    assert "endingTimestamp" in anywhere.failure_of(lambda: anywhere.drain(subscribe=topic, **meaningless))


def test_a_schema_chooses_columns(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, ["a"])
    reader = anywhere.spark.read.format(anywhere.format).options(**anywhere.options({"subscribe": topic})).schema("offset bigint")
    if anywhere.is_ours:
        assert [tuple(row) for row in reader.load().collect()] == [(0,)]
    else:
        assert "schema" in anywhere.failure_of(lambda: reader.load().collect())


def test_internal_topics_can_be_read(contract: Any):
    topic = contract.topic()
    contract.place.produce(topic, ["a"])
    consumer = Consumer({"bootstrap.servers": contract.place.servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.poll(60).error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    assert (len(contract.rows("key", subscribe="__consumer_offsets")) > 0) == contract.is_ours


def test_a_re_created_topic_is_detected(contract: Any):
    topic = contract.topic()
    contract.place.produce(topic, ["a", "b"])
    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c"}
    contract.drain(**options)
    contract.place.delete(topic)
    contract.place.create(topic)
    contract.place.produce(topic, ["new a", "new b", "new c"])
    if contract.is_ours:
        assert topic in contract.failure_of(lambda: contract.drain(**options))
        assert contract.drain(**options, failOnDataLoss=False).rows == [(0, 0, "new a"), (0, 1, "new b"), (0, 2, "new c")]
    else:
        assert contract.drain(**options).rows == [(0, 2, "new c")], "two records are lost without an error"


def test_batches_are_split_by_records_alone(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, range(10))
    frame = anywhere.load(subscribe=topic, maxRecordsPerPartition=5)
    assert frame.rdd.getNumPartitions() == (2 if anywhere.is_ours else 1), "the JVM connector does it in streams only"


def test_features_of_spark_s_own_sources_only(anywhere: Any):
    topic, sink = anywhere.topic(), anywhere.topic()
    anywhere.place.produce(topic, ["a"])
    # The mode that is Spark's default, errorifexists, is for tables that can be made.
    writer = anywhere.spark.sql("SELECT 'v' AS value").write.format(anywhere.format)
    options = anywhere.options({"topic": sink}, is_sink=True)
    if anywhere.is_ours:
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            writer.options(**options).save()
    else:
        writer.options(**options).save()
    # A Python source reports offsets but no metrics of its own; the lag is latestOffset less endOffset.
    stream = anywhere.drain(subscribe=topic, startingOffsets="earliest")
    source = json.loads(stream.query.recentProgress[0].json)["sources"][0]
    assert ("avgOffsetsBehindLatest" in source.get("metrics", {})) == (not anywhere.is_ours)


def test_a_query_changes_its_format_and_continues(contract: Any, jvm_format: str):
    topic = contract.topic()
    contract.place.produce(topic, ["a"])
    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c"}
    assert contract.drain(**options).rows == [(0, 0, "a")]
    contract.place.produce(topic, ["b"])
    was_ours = contract.is_ours
    contract.format = jvm_format if was_ours else "ottla"
    if was_ours:
        assert "#topic_ids" in contract.failure_of(lambda: contract.drain(**options))
        command = ["spark", "checkpoint", "--to", "kafka", str(contract.directory / "c")]
        expected = f'1 of 1 batches {{}}\nformat("kafka") continues at {topic} 0:1\n'
        assert CliRunner().invoke(main, [*command, "--check"]).output == expected.format("would be converted")
        contract.failure_of(lambda: contract.drain(**options))
        assert CliRunner().invoke(main, command).output == expected.format("converted")
    assert contract.drain(**options).rows == [(0, 1, "b")]
