"""Formats of option values, and the message for each invalid one."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.model import TopicPartition
from ottla.spark.options import values
from ottla.spark.options.values import OptionError, bootstrap_timeout_ms, parse_kafka_options, unknown_option, warn_of_no_effect

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (values.flag, "TRUE", True),
        (values.flag, " false ", False),
        (values.positive, "1", 1),
        (values.positive, "+9223372036854775807", 2**63 - 1),
        (values.milliseconds, "15m", 900_000),
        (values.milliseconds, "15min", 900_000),
        (values.milliseconds, "250", 250),
        (values.milliseconds, "250MS", 250),
        (values.milliseconds, "1999us", 1),
        (values.milliseconds, "2h", 7_200_000),
        (values.milliseconds, "1d", 86_400_000),
        (values.milliseconds, "10s", 10_000),
        (values.partitions, '{"t":[1,0]}', (T0, T1)),
        (values.partitions, "{}", ()),
        (values.offsets, '{"t":{"0":23,"1":-2}}', {T0: 23, T1: -2}),
        (values.offsets, '{"t":{"0":9223372036854775807}}', {T0: 2**63 - 1}),
        (values.timestamps, '{"t":{"0":1700000000000}}', {T0: 1_700_000_000_000}),
    ],
)
def test_values_that_are_understood(parse: Callable[[str, str], Any], text: str, value: object):
    assert parse("x", text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (values.flag, "yes", 'The option "x" must be true or false'),
        (values.positive, "0", "x must be positive, not 0"),
        (values.positive, " -5", "x must be positive, not -5"),
        (values.positive, "5.0", "a whole number from 1 to"),
        (values.positive, "9223372036854775808", "a whole number from 1 to"),
        (values.positive, "٣", "a whole number from 1 to"),
        (values.milliseconds, "1.5s", "must be a time such as"),
        (values.milliseconds, "10 s", "must be a time such as"),
        (values.milliseconds, "5w", "must be a time such as"),
        (values.milliseconds, "-5s", "must be a time such as"),
        (values.partitions, '{"t":0}', r'Expected e.g. {"topicA":\[0,1\]'),
        (values.partitions, '{"t":["0"]}', "Expected e.g."),
        (values.partitions, '{"t":[-1]}', "Expected e.g."),
        (values.offsets, "yesterday", 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got yesterday'),
        (values.offsets, "[]", "Expected e.g."),
        (values.offsets, '{"t":5}', "Expected e.g."),
        (values.offsets, '{"t":{"0":"5"}}', "Expected e.g."),
        (values.offsets, '{"t":{"0":true}}', "Expected e.g."),
        (values.offsets, '{"t":{"x":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"-1":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"99999999999":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"0":-3}}', "Expected e.g."),
        (values.offsets, "[" * 100_000, "Expected e.g."),
        (values.timestamps, '{"t":{"0":1.5}}', "Expected e.g."),
    ],
)
def test_values_that_are_none(parse: Callable[[str, str], Any], text: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse("x", text)


@pytest.mark.parametrize("read", [values.partitions, values.offsets])
def test_an_error_shows_the_beginning_of_a_long_text(read):
    with pytest.raises(OptionError) as raised:
        read("assign", "[" + "1," * 10_000)
    assert len(str(raised.value)) < 700


OPTIONS, PROPERTIES = ("startingOffsets", "subscribe"), ("bootstrap.servers", "isolation.level")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startingOffset", "The option \"startingOffset\" is not supported; did you mean 'startingOffsets'?"),
        ("Isolation.Level", 'it is a property of the Kafka client, write "kafka.Isolation.Level".'),
        ("bootstrap.server", "did you mean 'kafka.bootstrap.servers'?"),
        ("moon", 'The option "moon" is not supported; the options are startingOffsets, subscribe and kafka.*: leave it out.'),
    ],
)
def test_an_unknown_option(name: str, message: str):
    assert message in unknown_option(name, OPTIONS, PROPERTIES)


def test_where_it_is_unknown():
    assert unknown_option("moon", ("topic",), (), where=" for writing").startswith('The option "moon" is not supported for writing; the')


NEEDED = {"kafka.bootstrap.servers": "localhost:9092"}


def test_settings_of_the_client():
    others = {"subscribe": "t", "kafka.group.id": "g", "kafka.auto.offset.reset": "earliest"}
    settings = parse_kafka_options({**NEEDED, **others, "kafka.isolation.level": "read_committed", "kafka.fetch.max.wait.ms": "7"})
    assert (settings.bootstrap_servers, settings.client_id) == ("localhost:9092", "ottla-spark")
    assert (settings.is_read_committed, settings.fetch_max_wait_ms) == (True, 7)
    assert parse_kafka_options({**NEEDED, "kafka.client.id": "me"}).client_id == "me"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kafka.key.deserializer", "x", "Kafka option 'key.deserializer' is not supported: keys come as binary"),
        ("kafka.value.deserializer", "x", "Kafka option 'value.deserializer' is not supported: values come as binary"),
        ("kafka.enable.auto.commit", "false", "Kafka option 'enable.auto.commit' is not supported"),
        ("kafka.interceptor.classes", "", "Kafka option 'interceptor.classes' is not supported"),
        ("kafka.fetch.max.wait.ms", "soon", "Kafka option fetch.max.wait.ms must be a whole number"),
        ("kafka.no.such.thing", "5", "Kafka option no.such.thing is no property of a Kafka consumer"),
        ("kafka.bootstrap.servers", "localhost", "Kafka option bootstrap.servers: 'localhost' is no host:port"),
        ("kafka.bootstrap.servers", " ", "Option 'kafka.bootstrap.servers' must be specified"),
    ],
)
def test_what_is_refused(name: str, value: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse_kafka_options({**NEEDED, name: value})


def test_a_group_id_is_warned_of(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        warn_of_no_effect({"kafka.group.id": "g", "groupidprefix": "p"})
    first, second = caplog.messages
    assert "joins no group and commits nothing" in first
    assert second == "Option groupIdPrefix will be ignored as option kafka.group.id has been set."
    caplog.clear()
    warn_of_no_effect({"groupidprefix": "p"})
    assert caplog.messages == ["Option groupIdPrefix will be ignored as no group is joined here."]


def test_what_has_no_effect_is_reported(caplog: pytest.LogCaptureFixture):
    options = {**NEEDED, "kafka.session.timeout.ms": "10", "kafka.max.poll.records": "1"}
    assert parse_kafka_options(options) == parse_kafka_options(NEEDED)
    with caplog.at_level(logging.WARNING):
        warn_of_no_effect(options)
    assert [message.split('"')[1] for message in caplog.messages] == ["kafka.session.timeout.ms", "kafka.max.poll.records"]


def test_a_first_broker_is_reached_in_seconds_or_in_the_time_that_was_set():
    options = {"kafka.bootstrap.servers": "localhost:9092"}
    assert bootstrap_timeout_ms(options, parse_kafka_options(options)) == 5_000
    options["kafka.default.api.timeout.ms"] = "90000"
    assert bootstrap_timeout_ms(options, parse_kafka_options(options)) == 90_000
