"""Options with Spark's names and defaults, and the message for each invalid one."""

import logging

import pytest

from ottla.spark.options.positions import Edge, GroupOffsets, Timestamp
from ottla.spark.options.source_options import SUPPORTED, Query, ReadSettings, SourceOptions, parse_options
from ottla.spark.options.subscription import Subscribe
from ottla.spark.options.values import OptionError

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def _parse(query: Query = Query.BATCH, **more: str) -> SourceOptions:
    return parse_options({**NEEDED, **{name.replace("__", "."): value for name, value in more.items()}}, query)


def test_defaults_are_those_of_spark_s_kafka_source():
    options = _parse()
    assert (options.starting, options.ending, options.unmatched_start) == (Edge.EARLIEST, Edge.LATEST, "error")
    assert _parse(Query.STREAM).starting is Edge.LATEST
    assert (options.include_headers, options.fail_on_data_loss, options.decode) == (False, True, "records")
    assert (options.subscription, options.client.bootstrap_servers) == (Subscribe(("t",)), "localhost:9092")
    assert (options.poll_timeout_ms, options.offset_attempts_max, options.offset_retry_ms) == (120_000, 3, 1_000)
    assert (options.trigger_offsets_max, options.trigger_offsets_min, options.trigger_delay_ms_max) == (None, None, 900_000)
    assert (options.partitions_min, options.task_records_max, options.tasks_max, options.group_id) == (None, None, None, None)


def test_every_option_has_its_place():
    options = _parse(
        Query.STREAM,
        startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST", includeHeaders="true", failOnDataLoss="FALSE",
        kafkaConsumer__pollTimeoutMs="7", fetchOffset__numRetries="8", fetchOffset__retryIntervalMs="9",
        maxOffsetsPerTrigger="10", minOffsetsPerTrigger="10", maxTriggerDelay="11s",
        minPartitions="12", maxRecordsPerPartition="13", maxTasks="14", groupIdPrefix="p", group__id="g", decode="group_records",
    )  # fmt: skip
    assert (options.starting, options.unmatched_start) == (Timestamp(5), "latest")
    assert (options.include_headers, options.fail_on_data_loss, options.decode) == (True, False, "group_records")
    assert (options.poll_timeout_ms, options.offset_attempts_max, options.offset_retry_ms) == (7, 8, 9)
    assert (options.trigger_offsets_max, options.trigger_offsets_min, options.trigger_delay_ms_max) == (10, 10, 11_000)
    assert (options.partitions_min, options.task_records_max, options.tasks_max, options.group_id) == (12, 13, 14, "g")


def test_what_the_tasks_need():
    settings = _parse(failOnDataLoss="false", kafkaConsumer__pollTimeoutMs="7").read_settings(("key",))
    client = _parse().client
    assert settings == ReadSettings(client=client, columns=("key",), fail_on_data_loss=False, decode="records", poll_timeout_ms=7)


def test_names_come_in_any_case_of_letters():
    lowered = parse_options(
        {name.upper(): value for name, value in {**NEEDED, "startingOffsets": "earliest", "includeHeaders": "TRUE"}.items()}
    )
    assert (lowered.starting, lowered.include_headers) == (Edge.EARLIEST, True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingOffsets", "latest", "starting offset can't be latest for batch queries on Kafka"),
        ("startingOffsetsByTimestampStrategy", "x", 'The option "startingOffsetsByTimestampStrategy" must be error or latest'),
        ("decode", "json", "must be records or group_records, not 'json'"),
        ("includeHeaders", "yes", "must be true or false, not 'yes'"),
        ("minPartitions", "0", "minPartitions must be positive"),
        ("maxRecordsPerPartition", "-1", "maxRecordsPerPartition must be positive"),
        ("fetchOffset.numRetries", "0", "from 1 to"),
        ("maxTriggerDelay", "soon", "must be a time such as"),
        ("kafka.auto.offset.reset", "earliest", "Instead set the source option 'startingOffsets'"),
        ("group.id", "g", "for streaming queries"),
        ("group.id", " ", "is empty"),
        ("path", "x", "takes no path"),
        ("startingOffset", "earliest", 'The option "startingOffset" is not supported; did you mean .startingOffsets'),
        ("moon", "full", 'The option "moon" is not supported; the options are assign, subscribe'),
        ("bootstrap.servers", "h:1", 'write "kafka.bootstrap.servers"'),
        ("topic", "t", 'name topics with the option "subscribe"'),
        ("kafka.no.such", "5", "no property of a Kafka consumer"),
    ],
)
def test_what_cannot_be(name: str, value: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse_options({**NEEDED, name: value}, Query.BATCH)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str):
    with pytest.raises(OptionError, match=f'not valid in streaming queries: leave out the option "{name}"'):
        parse_options({**NEEDED, name: "5"}, Query.STREAM)


def test_limits_of_triggers_are_warned_of_in_a_batch_and_must_fit(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        _parse(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="4", maxTriggerDelay="1s")
    assert caplog.messages == [
        f"{name} option ignored in batch queries" for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    ]
    with pytest.raises(OptionError, match=r"minOffsetsPerTrigger\(6\) is higher than the maxOffsetsPerTrigger\(5\)"):
        _parse(Query.STREAM, maxOffsetsPerTrigger="5", minOffsetsPerTrigger="6")


def test_a_batch_may_start_where_a_group_is():
    assert _parse(startingOffsets="group", group__id="g").starting == GroupOffsets("g", "latest")
    assert _parse(startingOffsets="group", kafka__group__id="h", kafka__auto__offset__reset="none").starting == GroupOffsets("h", "none")


def test_what_depends_on_the_query_waits_for_it():
    for name, value in (("startingOffsets", "latest"), ("endingOffsets", "latest"), ("group.id", "g")):
        parse_options({**NEEDED, name: value})


def test_every_supported_option_is_read():
    words = {"failOnDataLoss": "x", "includeHeaders": "x", "decode": "x", "startingOffsetsByTimestampStrategy": "x", "group.id": " "}
    pointless = {"groupIdPrefix"}
    for name in set(SUPPORTED) - pointless:
        others = {key: value for key, value in NEEDED.items() if key != "subscribe" or name not in ("assign", "subscribePattern")}
        with pytest.raises(OptionError):
            parse_options({**others, name: words.get(name, " ")})
