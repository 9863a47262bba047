"""Options as people write them: Spark's names and defaults, and an answer for each that cannot be."""

import pytest

from ottla.consumer.cluster import EARLIEST, LATEST
from ottla.core.model import TopicPartition
from ottla.spark.options import SUPPORTED, OptionError, SourceOptions, parse_options

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def _parse(**more: str) -> SourceOptions:
    return parse_options({**NEEDED, **{name.replace("__", "."): value for name, value in more.items()}})


def test_defaults_are_those_of_spark_s_kafka_source():
    options = _parse()
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert (options.include_headers, options.fail_on_data_loss) == (False, True)
    assert (options.topics, options.bootstrap_servers) == (("t",), "localhost:9092")


def test_names_come_in_any_case_of_letters():
    lowered = parse_options(
        {name.lower(): value for name, value in {**NEEDED, "startingOffsets": "earliest", "includeHeaders": "TRUE"}.items()}
    )
    assert (lowered.starting, lowered.include_headers) == (EARLIEST, True)


def test_topics_are_a_comma_list():
    assert _parse(subscribe=" b, a ,b,").topics == ("b", "a")


def test_offsets_by_partition():
    options = _parse(startingOffsets='{"t":{"0":23,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":9223372036854775807}}')
    assert options.starting == {TopicPartition("t", 0): 23, TopicPartition("t", 1): EARLIEST}
    assert options.ending == {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): 2**63 - 1}


def test_kafka_s_own_settings():
    options = _parse(
        kafka__request__timeout__ms="1000",
        kafka__fetch__max__wait__ms="0",
        kafka__max__partition__fetch__bytes="1048576",
        kafka__client__id="me",
    )
    assert (options.request_timeout_ms, options.fetch_max_wait_ms, options.partition_fetch_bytes_max) == (1000, 0, 1048576)
    assert options.client_id == "me"
    _parse(kafka__isolation__level="read_uncommitted", kafka__security__protocol="PLAINTEXT")


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_what_is_needed_is_named(missing: str):
    with pytest.raises(OptionError, match=f'The option "{missing}" is needed'):
        parse_options({name: value for name, value in NEEDED.items() if name != missing})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingOffsets", "latest", "starting offset can't be latest for batch queries on Kafka"),
        ("endingOffsets", "earliest", "ending offset can't be earliest for batch queries on Kafka"),
        ("startingOffsets", '{"t":{"0":-1}}', "starting offset for t-0 can't be latest for batch queries on Kafka"),
        ("endingOffsets", '{"t":{"0":-2}}', "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        ("startingOffsets", "yesterday", 'The option "startingOffsets" must be earliest, latest or JSON such as'),
        ("startingOffsets", "[]", "JSON such as"),
        ("startingOffsets", '{"t":5}', "JSON such as"),
        ("startingOffsets", '{"t":{"0":"5"}}', "JSON such as"),
        ("startingOffsets", '{"t":{"0":true}}', "JSON such as"),
        ("startingOffsets", '{"t":{"x":5}}', "JSON such as"),
        ("endingOffsets", '{"t":{"0":-3}}', "JSON such as"),
        ("includeHeaders", "yes", "must be true or false, not 'yes'"),
        ("subscribe", " , ", "names no topic"),
        ("kafka.bootstrap.servers", "localhost", "'localhost' is no host:port"),
        ("kafka.request.timeout.ms", "0", "a whole number from 1 to 600000, not '0'"),
        ("kafka.max.partition.fetch.bytes", "-5", "a whole number"),
        ("kafka.isolation.level", "read_committed", "only be read_uncommitted so far"),
        ("kafka.security.protocol", "SASL_SSL", "only be PLAINTEXT so far"),
    ],
)
def test_values_that_cannot_be(name: str, value: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse_options({**NEEDED, name: value})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("assign", 'use "subscribe"'),
        ("subscribePattern", 'list the topics in "subscribe"'),
        ("path", "takes no path"),
        ("kafka.group.id", "reads without a group"),
        ("kafka.auto.offset.reset", 'use the option "startingOffsets"'),
        ("kafka.key.deserializer", "keys come as binary"),
        ("kafka.sasl.mechanism", 'The option "kafka.sasl.mechanism" is not supported; the options are kafka.bootstrap.servers, subscribe'),
        ("startingTimestamp", "is not supported; the options are"),
        ("minPartitions", "is not supported; the options are"),
    ],
)
def test_nothing_is_silently_ignored(name: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse_options({**NEEDED, name: "1"})


def test_every_supported_option_is_read():
    values = {"startingOffsets": "earliest", "endingOffsets": "latest", "includeHeaders": "true", "failOnDataLoss": "false"}
    values |= {"kafka.client.id": "c", "kafka.isolation.level": "read_uncommitted", "kafka.security.protocol": "PLAINTEXT"}
    parse_options({name: values.get(name, "100") for name in SUPPORTED} | NEEDED)
