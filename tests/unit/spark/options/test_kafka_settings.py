"""Options of the client: its settings, and the messages of refusals."""

import logging

import pytest

from ottla.spark.options.kafka_settings import bootstrap_timeout_ms, parse_kafka_options, warn_of_no_effect
from ottla.spark.options.values import OptionError

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
