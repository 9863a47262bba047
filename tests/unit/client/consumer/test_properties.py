"""A consumer's properties: Kafka's names and librdkafka's, and what is refused."""

import logging
from pathlib import Path
from typing import Any

import pytest

from ottla.client.consumer.properties import parse_properties
from ottla.client.engine.values import EARLIEST, LATEST, ResetByDuration
from ottla.client.security.token_endpoint import EndpointTokens

BASE = {"bootstrap.servers": "localhost:9092", "group.id": "g"}


def parsed(**properties: Any) -> Any:
    return parse_properties(BASE | {name.replace("_", "."): value for name, value in properties.items()})


def test_the_defaults_are_those_of_librdkafka() -> None:
    found = parsed()
    consumer, group = found.consumer, found.consumer.group
    assert (group.session_timeout_ms, group.heartbeat_interval_ms, group.max_poll_interval_ms) == (45_000, 3_000, 300_000)
    assert (consumer.is_auto_commit, consumer.auto_commit_interval_ms, consumer.stores_offsets) == (True, 5_000, True)
    assert (consumer.reset, consumer.reports_ends, consumer.fetch.is_read_committed) == (LATEST, False, True)
    assert consumer.fetch.partition_max_bytes == 1_048_576
    assert [assignor.name for assignor in found.assignors] == ["range", "roundrobin"]
    assert found.records_max is None


def test_both_spellings() -> None:
    assert parsed(fetch_wait_max_ms=7).client.fetch_max_wait_ms == 7
    assert parse_properties({"metadata.broker.list": "h:1", "group.id": "g"}).client.bootstrap_servers == "h:1"
    assert parsed(enable_auto_commit=False).consumer.is_auto_commit is False
    assert parsed(enable_auto_commit="False").consumer.is_auto_commit is False
    assert parsed(client_id=None).client.client_id == "ottla"


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", EARLIEST),
        ("smallest", EARLIEST),
        ("Latest", LATEST),
        ("end", LATEST),
        ("none", None),
        ("error", None),
        ("by_duration:PT1H30M", ResetByDuration(5_400_000)),
        ("by_duration:P1DT0.5S", ResetByDuration(86_400_500)),
    ],
)
def test_resets(text: str, reset: Any) -> None:
    assert parsed(auto_offset_reset=text).consumer.reset == reset


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"foo": 1}, "foo is no property of a Kafka consumer"),
        ({"group.id": ""}, "group.id must be set"),
        ({"session.timeout.ms": "abc"}, "session.timeout.ms must be a whole number"),
        (
            {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 1_000},
            "heartbeat.interval.ms .1000. must be lower than session.timeout.ms",
        ),
        ({"max.poll.interval.ms": 1_000}, "max.poll.interval.ms .1000. must not be lower than session.timeout.ms"),
        ({"max.poll.records": 0}, "max.poll.records must be a whole number from 1"),
        ({"enable.auto.commit": "maybe"}, "enable.auto.commit must be true or false"),
        ({"auto.offset.reset": "by_duration:soon"}, "auto.offset.reset must be"),
        ({"auto.offset.reset": "by_duration:P"}, "auto.offset.reset must be"),
        ({"partition.assignment.strategy": "best"}, "partition.assignment.strategy: .best. is no assignor"),
        ({"partition.assignment.strategy": "range,range"}, "names an assignor twice"),
        ({"group.instance.id": "a b"}, "group.instance.id must be"),
        ({"group.protocol": "share"}, "group.protocol must be classic or consumer, not 'share'"),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 6000},
            "session.timeout.ms is not supported with group.protocol=consumer: it is set at the broker, group.consumer.session.timeout.ms",
        ),
        ({"group.protocol": "Consumer", "heartbeat.interval.ms": 6000}, "heartbeat.interval.ms is not supported with group.protocol"),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            "partition.assignment.strategy is not supported with group.protocol=consumer: use group.remote.assignor instead",
        ),
        ({"group.protocol": "consumer", "group.protocol.type": "consumer"}, "group.protocol.type is not supported with group.protocol"),
        ({"interceptor.classes": "x"}, "interceptor.classes: 'x' must be module:Class, or an object"),
        ({"value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"}, "value.deserializer must be a function of"),
        ({"topic.blacklist": "a"}, "topic.blacklist is not supported"),
        ({"check.crcs": False}, "check.crcs can only be true"),
        ({"error_cb": 5}, "error_cb requires a callable object"),
        ({"debug": "cgrp,nonsense"}, "debug must be words of generic, broker, .*, not 'cgrp,nonsense'"),
        ({"logger": "mine"}, "logger must have the methods of logging.Logger"),
        ({"log_level": 8}, "log_level must be a whole number from 0 to 7"),
        ({"sasl.oauthbearer.grant.type": "urn:x"}, "sasl.oauthbearer.grant.type can only be client_credentials"),
        ({"default.topic.config": 5}, "default.topic.config must be a dictionary"),
        ({"sasl.username": "u"}, "sasl.username and sasl.password belong together"),
        ({"ssl.key.location": "k"}, "ssl.certificate.location and ssl.key.location belong together"),
        ({"ssl.key.location": "/no", "ssl.certificate.location": "/no"}, "ssl.certificate.location cannot be read"),
    ],
)
def test_what_is_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_properties(BASE | properties)


def test_a_long_heartbeat_interval_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.consumer"):
        parsed(session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
        assert caplog.messages == []
        parsed(session_timeout_ms=6_000, heartbeat_interval_ms=3_000)
    assert "set 2000" in caplog.messages[0]


def test_javas_names_of_assignors() -> None:
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range"
    assert [each.name for each in parsed(partition_assignment_strategy=strategy).assignors] == ["cooperative-sticky", "range"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafkas_users(mechanism: str) -> None:
    config = {"security.protocol": "sasl_ssl", "sasl.mechanisms": mechanism, "sasl.username": 'a"b', "sasl.password": "c\\d"}
    security = parse_properties(BASE | config).client.security
    assert (security.protocol, security.sasl_mechanism, security.username, security.password) == ("SASL_SSL", mechanism, 'a"b', "c\\d")


def test_librdkafkas_oauth_server_and_key_store() -> None:
    config = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.token.endpoint.url": "https://h/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.extensions": "a=b,c=d",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "p",
    }
    security = parse_properties(BASE | config).client.security
    assert security.tokens is not None
    given = EndpointTokens(url="https://h/token", client_id="me", client_secret="s", extensions=(("a", "b"), ("c", "d")))
    assert security.tokens.source == given
    assert (security.keystore_location, security.keystore_is_pkcs12) == ("/k.p12", True)


def test_librdkafkas_certificates(tmp_path: Path) -> None:
    (tmp_path / "cert").write_text("CERT")
    (tmp_path / "key").write_text("KEY")
    config = {
        "security.protocol": "ssl",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.endpoint.identification.algorithm": "none",
    }
    security = parse_properties(BASE | config).client.security
    assert (security.truststore_location, security.keystore_certificate_chain, security.keystore_key) == ("/ca.pem", "CERT", "KEY")
    assert not security.checks_hostname


def test_a_callback_is_kept() -> None:
    assert parse_properties(BASE | {"on_commit": print}).on_commit is print


def test_all_problems_are_in_one_message() -> None:
    given = {"enable.auto.comit": True, "check.crcs": False, "acks": 1, "sasl.kerberos.keytab": "k", "session.timeout.ms": "long"}
    with pytest.raises(ValueError, match=r"did you mean") as raised:
        parse_properties(BASE | given)
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines] == ["enable.auto.comit", "check.crcs", "sasl.kerberos.keytab", "session.timeout.ms"]
    assert lines[0].endswith("did you mean 'enable.auto.commit'?")


def test_one_line_names_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.consumer"):
        given = {"socket.keepalive.enable": True, "acks": "all", "linger.ms": 5, "enable.metrics.push": False, "socket.max.fails": None}
        assert parse_properties(BASE | given).consumer == parsed().consumer
    sockets, producers = caplog.messages[0].removeprefix("properties without effect here: ").split("; ")
    assert sockets == "socket.keepalive.enable (sockets are as the operating system has them)"
    assert producers == "acks, linger.ms (it is a producer's)"
    assert len(caplog.messages) == 1


def test_properties_of_topics_may_stand_apart() -> None:
    assert parsed(default_topic_config={"auto.offset.reset": "earliest"}).consumer.reset == EARLIEST
    assert parsed(default_topic_config={"auto.offset.reset": "earliest"}, auto_offset_reset="latest").consumer.reset == LATEST
    with pytest.raises(ValueError, match=r"auto.offset.rest is no property"):
        parsed(default_topic_config={"auto.offset.rest": "earliest"})


def test_values_that_librdkafka_writes_otherwise() -> None:
    client = parsed(socket_receive_buffer_bytes=0, socket_send_buffer_bytes=0, connections_max_idle_ms=0).client
    assert (client.receive_buffer_bytes, client.send_buffer_bytes, client.connections_max_idle_ms) == (-1, -1, -1)
    assert parsed(topic_metadata_refresh_interval_ms=-1).client.metadata_max_age_ms == 2**63 - 1
    assert parsed(allow_auto_create_topics=True).consumer.creates_topics
