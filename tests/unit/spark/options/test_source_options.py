"""Options with Spark's names and defaults, and the message for each invalid one."""

import logging
import re
from typing import Any

import pytest

from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import (
    SUPPORTED,
    Edge,
    GroupOffsets,
    MemberOptions,
    Query,
    ReadSettings,
    SourceOptions,
    SpecificOffsets,
    Timestamp,
    Timestamps,
    check_batch,
    listed,
    parse_options,
    position,
    starting_position,
)
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


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_times_count_before_offsets_and_one_time_before_many():
    options = {"endingoffsets": "latest"}
    assert position({}, "ending", Edge.EARLIEST) is Edge.EARLIEST
    assert position(options, "ending", Edge.EARLIEST) is Edge.LATEST
    options["endingoffsetsbytimestamp"] = '{"t":{"0":7}}'
    assert position(options, "ending", Edge.EARLIEST) == Timestamps({T0: 7})
    options["endingtimestamp"] = "9"
    assert position(options, "ending", Edge.EARLIEST) == Timestamp(9)


@pytest.mark.parametrize(
    ("text", "value"), [(" Earliest", Edge.EARLIEST), ("LATEST ", Edge.LATEST), ('{"t":{"1":-2}}', SpecificOffsets({T1: -2}))]
)
def test_offsets_are_words_or_json(text: str, value: object):
    assert starting_position({"startingoffsets": text}, Edge.LATEST, None) == value


def test_a_group_s_offsets_with_kafka_s_reset():
    options = {"startingoffsets": "Group"}
    assert starting_position(options, Edge.LATEST, "g") == GroupOffsets("g", "latest")
    options["kafka.auto.offset.reset"] = "EARLIEST"
    assert starting_position(options, Edge.LATEST, "g") == GroupOffsets("g", "earliest")
    with pytest.raises(OptionError, match=r'say which in the option "group\.id"'):
        starting_position(options, Edge.LATEST, None)
    with pytest.raises(OptionError, match="must be one of earliest, latest, none"):
        starting_position({**options, "kafka.auto.offset.reset": "by_duration:PT1H"}, Edge.LATEST, "g")
    with pytest.raises(
        OptionError, match=r"Kafka option 'auto\.offset\.reset' is not supported\. Instead set the source option 'startingOffsets'"
    ):
        starting_position({**options, "startingtimestamp": "5"}, Edge.LATEST, "g")
    assert starting_position({"startingoffsets": "group", "startingtimestamp": "5"}, Edge.LATEST, None) == Timestamp(5)


@pytest.mark.parametrize(
    ("starting", "ending", "message"),
    [
        (Edge.LATEST, Edge.LATEST, "starting offset can't be latest for batch queries on Kafka"),
        (Edge.EARLIEST, Edge.EARLIEST, "ending offset can't be earliest for batch queries on Kafka"),
        (SpecificOffsets({T0: 0, T1: -1}), Edge.LATEST, "startingOffsets for t-1 can't be latest for batch queries on Kafka"),
        (Edge.EARLIEST, SpecificOffsets({T0: -2}), "ending offset for t-0 .endingOffsets. can't be earliest for batch queries on Kafka"),
        (SpecificOffsets({T0: 5}), SpecificOffsets({T0: 3}), "start offset 5 is greater than the end offset 3 for topic t partition 0"),
        (Timestamps({T0: 5}), Timestamps({T0: 3}), "start timestamp 5 is greater than the end timestamp 3 for topic t partition 0"),
        (
            SpecificOffsets({T0: 5}),
            SpecificOffsets({T1: 6}),
            "the same topic-partitions. Topic-partitions for start offset: t-0, .*end offset: t-1",
        ),
    ],
)
def test_what_a_batch_cannot_have(starting, ending, message: str):
    with pytest.raises(OptionError, match=message):
        check_batch(starting, ending)


def test_words_in_numbers_are_not_compared():
    check_batch(SpecificOffsets({T0: 5, T1: -2}), SpecificOffsets({T0: -1, T1: 0}))
    check_batch(SpecificOffsets({T0: 5}), Timestamps({T1: 3}))
    check_batch(Timestamp(5), Timestamp(3))


def test_partitions_in_order():
    assert listed({T1, T0}) == "t-0, t-1"


def test_of_very_many_partitions_the_first():
    assert listed({TopicPartition("t", number) for number in range(50)}).endswith("t-48, t-49")
    assert listed({TopicPartition("t", number) for number in range(2_000)}).endswith("t-48, t-49 and 1950 more")


GROUP_NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t, u", "group.id": "g", "ottla.group.mode": "member"}


def parse(query: Query = Query.STREAM, **given: str | None) -> SourceOptions:
    return parse_options({name: text for name, text in {**GROUP_NEEDED, **given}.items() if text is not None}, query)


def member(**given: Any) -> MemberOptions:
    found = parse(**given).member
    assert found is not None
    return found


def test_commit_mode_is_the_default() -> None:
    assert parse(**{"ottla.group.mode": None}).member is None
    assert parse(**{"ottla.group.mode": "COMMIT"}).member is None


def test_a_member_has_a_consumer_s_properties() -> None:
    found = member(
        **{
            "kafka.group.instance.id": "i",
            "kafka.session.timeout.ms": "6000",
            "kafka.partition.assignment.strategy": "cooperative-sticky",
            "kafka.auto.offset.reset": "earliest",
            "kafka.group.id": "other",
        }
    )
    assert found == MemberOptions(
        {
            "bootstrap.servers": "localhost:9092",
            "client.id": "ottla-spark",
            "group.id": "g",
            "group.instance.id": "i",
            "session.timeout.ms": "6000",
            "max.poll.interval.ms": "300000",
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "earliest",
        },
        ("t", "u"),
        "earliest",
    )
    assert member().reset == "latest"
    assert member(startingOffsets="group").topics == ("t", "u")


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("flights", ["flights", "all-flights", "flights2"], ["flight", "FLIGHTS"]),
        ("^flights$", ["flights"], ["all-flights", "flights2"]),
        ("(?i)fl|we", ["FLIGHTS", "weather", "my-Weather"], ["cars"]),
    ],
)
def test_a_pattern_means_the_same_to_the_group(pattern: str, names: list[str], others: list[str]) -> None:
    (topic,) = member(subscribe=None, subscribePattern=pattern).topics
    found = re.compile(topic)
    assert topic.startswith("^")
    assert all(found.match(name) for name in names)
    assert not any(found.match(name) for name in others)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ottla.group.mode": "joined"}, "must be commit or member, not 'joined'"),
        ({"group.id": None}, 'name the group with the option "group.id"'),
        ({"subscribe": None, "assign": '{"t":[0]}'}, 'use "subscribe"'),
        ({"startingOffsets": "earliest"}, '"startingOffsets" is not for members'),
        ({"startingTimestamp": "5"}, '"startingTimestamp" is not for members'),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, '"startingOffsetsByTimestamp" is not for members'),
        ({"kafka.heartbeat.interval.ms": "45000"}, "heartbeat.interval.ms"),
        ({"kafka.partition.assignment.strategy": "unknown-one"}, "partition.assignment.strategy"),
        ({"kafka.group.protocol": "share"}, "group.protocol must be classic or consumer"),
        (
            {"kafka.group.protocol": "consumer", "kafka.session.timeout.ms": "9000"},
            "session.timeout.ms is not supported with group.protocol",
        ),
        ({"kafka.auto.offset.reset": "by_duration:PT1H"}, "must be one of earliest, latest, none"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
    ],
)
def test_what_is_refused(given: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(**given)


def test_a_batch_query_joins_no_group() -> None:
    with pytest.raises(OptionError, match="a batch query joins no group"):
        parse(Query.BATCH, startingOffsets="group")


def test_warnings_fit_the_mode(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.session.timeout.ms": "9000", "kafka.group.id": "other"}
    parse(**given)
    (message,) = caplog.messages
    assert message.startswith('Kafka option "kafka.group.id" has no effect')
    caplog.clear()
    parse(**given, **{"ottla.group.mode": "commit"})
    assert 'Kafka option "kafka.session.timeout.ms" has no effect' in caplog.messages[0]
