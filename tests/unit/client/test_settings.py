"""Kafka's consumer properties as settings: supported, checked, refused; never ignored."""

import pickle

import pytest

from ottla.client.settings import ClientSettings, parse_client_settings

SERVERS = {"bootstrap.servers": "a:1,b:2"}


def test_defaults_are_kafka_s() -> None:
    settings = parse_client_settings(SERVERS)
    assert settings == ClientSettings(bootstrap_servers="a:1,b:2")
    assert (settings.request_timeout_ms, settings.default_api_timeout_ms, settings.retry_backoff_ms) == (30_000, 60_000, 100)
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))


def test_values_of_properties() -> None:
    settings = parse_client_settings(
        SERVERS
        | {
            "client.id": "me",
            "isolation.level": "read_committed",
            "fetch.min.bytes": "10",
            "fetch.max.wait.ms": " 0 ",
            "max.partition.fetch.bytes": "1048576",
            "receive.buffer.bytes": "-1",
            "check.crcs": "true",
            "allow.auto.create.topics": "FALSE",
            "client.dns.lookup": "use_all_dns_ips",
        }
    )
    assert settings == ClientSettings(
        bootstrap_servers="a:1,b:2",
        client_id="me",
        is_read_committed=True,
        fetch_min_bytes=10,
        fetch_max_wait_ms=0,
        max_partition_fetch_bytes=1_048_576,
    )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("bootstrap.servers", "nowhere", "bootstrap.servers: 'nowhere' is no host:port"),
        ("fetch.min.bytes", "-1", "fetch.min.bytes must be a whole number from 0 to 2147483647, not '-1'"),
        ("request.timeout.ms", "1.5", "request.timeout.ms must be a whole number"),
        ("request.timeout.ms", "--1", "request.timeout.ms must be a whole number"),
        ("retry.backoff.ms", "9223372036854775808", "retry.backoff.ms must be a whole number from 0 to 9223372036854775807"),
        ("isolation.level", "READ_COMMITTED", "isolation.level must be read_committed or read_uncommitted"),
        ("check.crcs", "false", "check.crcs can only be true: checksums are always checked"),
        ("enable.metrics.push", "true", "enable.metrics.push can only be false"),
        ("group.id", "g", "group.id is not supported: it belongs to members of a consumer group"),
        ("key.deserializer", "x", "key.deserializer is not supported: keys and values are handed over as the bytes they are"),
        ("ssl.cipher.suites", "x", "ssl.cipher.suites is not supported"),
        ("fetch.min.byte", "1", "fetch.min.byte is no property of a Kafka consumer; did you mean 'fetch.min.bytes'?"),
        ("request.timeout.ms", "1_000", "request.timeout.ms must be a whole number"),
    ],
)
def test_invalid_properties_are_named(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_client_settings(SERVERS | {name: value})


def test_servers_are_needed() -> None:
    with pytest.raises(ValueError, match=r"bootstrap.servers is needed"):
        parse_client_settings({})


# What Apache Kafka 4.3's ConsumerConfig has beside security, and this client does not take.
OF_KAFKA = [
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "config.providers",
    "enable.auto.commit",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "key.deserializer",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "value.deserializer",
]


@pytest.mark.parametrize("name", OF_KAFKA)
def test_a_property_of_kafka_s_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is not supported: .*(leave it out|set .* instead|: set )"):
        parse_client_settings({"bootstrap.servers": "a:1", name: "1"})
