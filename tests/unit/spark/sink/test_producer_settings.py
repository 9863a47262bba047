"""Kafka's producer properties as librdkafka's, and those that are refused."""

import pickle

import pytest
from confluent_kafka import Producer

from ottla.config.client_properties import PROPERTIES, property_names
from ottla.config.client_property import Client, Effect, Number
from ottla.spark.options.values import OptionError
from ottla.spark.sink.producer_settings import parse_producer_settings

SERVERS = {"bootstrap.servers": "h:1,i:2"}


def words(**more: str) -> dict[str, str | int | bool]:
    return dict(parse_producer_settings({**SERVERS, **{name.replace("_", "."): value for name, value in more.items()}}).properties)


def test_kafkas_defaults_hold_where_librdkafka_has_others():
    found = words()
    assert found["bootstrap.servers"] == "h:1,i:2"
    assert (found["message.max.bytes"], found["queue.buffering.max.kbytes"], found["delivery.timeout.ms"]) == (1_048_576, 32_768, 120_000)
    assert (found["enable.idempotence"], found["acks"], found["partitioner"]) == (True, "all", "murmur2_random")
    assert parse_producer_settings(SERVERS).max_block_ms == 60_000


def test_names_and_units_become_librdkafkas():
    found = words(buffer_memory="1048577", max_request_size="2000000", linger_ms="0", compression_type="ZSTD", client_id="me", retries="7")
    assert (found["queue.buffering.max.kbytes"], found["message.max.bytes"], found["linger.ms"]) == (1025, 2_000_000, 0)
    assert (found["compression.type"], found["client.id"], found["retries"]) == ("zstd", "me", 7)


def test_librdkafka_takes_every_property():
    extremes = {
        "linger.ms": "5",
        "acks": "1",
        "compression.type": "lz4",
        "client.dns.lookup": "use_all_dns_ips",
        "enable.idempotence": "false",
    }
    numbers = {name: "100000" for name in property_names(Client.PRODUCER, Effect.APPLIED) if isinstance(PROPERTIES[name].kind, Number)}
    del numbers["reconnect.backoff.max.ms"], numbers["retry.backoff.max.ms"], numbers["delivery.timeout.ms"]
    del numbers["transaction.timeout.ms"]  # of transactions, which need idempotence: test_writers.py
    settings = parse_producer_settings({**SERVERS, **numbers, **extremes})
    Producer({**dict(settings.properties), "bootstrap.servers": ""})
    assert settings.delivery_timeout_ms == 120_000


def test_settings_are_picklable_and_show_no_secret():
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="geheim";'
    given = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    settings = parse_producer_settings(given)
    assert dict(settings.properties)["sasl.password"] == "geheim"
    assert "geheim" not in repr(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(parse_producer_settings(given))


def test_tokens_that_librdkafka_makes_itself_and_others_that_it_cannot_have():
    oauth = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=alice;"
    settings = parse_producer_settings({**oauth, "sasl.jaas.config": login})
    Producer({**dict(settings.properties), "bootstrap.servers": ""})
    with pytest.raises(OptionError, match="tokens of a callback or a file cannot be handed to librdkafka"):
        parse_producer_settings({**oauth, "sasl.oauthbearer.token.endpoint.url": "file:///token"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"key.serializer": "x"}, "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."),
        ({"value.serializer": "x"}, "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."),
        ({"transactional.id": "x"}, '"transactional.id" is not supported: each task has an id of its own'),
        ({"partitioner.class": "x"}, "or where the column partition says: leave it out"),
        ({"foo": "x"}, '"foo" is no property of a Kafka producer'),
        ({"acks": "7"}, "The option \"kafka.acks\" must be one of all, -1, 0, 1, not '7'"),
        ({"linger.ms": "x"}, 'The option "kafka.linger.ms" must be a whole number from 0 to 900000'),
        ({"enable.idempotence": "ja"}, 'The option "kafka.enable.idempotence" must be true or false'),
        ({"bootstrap.servers": ""}, 'The option "kafka.bootstrap.servers" is needed'),
        ({"bootstrap.servers": "h"}, "The Kafka options are wrong: "),
        ({"ssl.truststore.location": "/x.jks"}, "The Kafka options are wrong: ssl.truststore.type must be PEM"),
        ({"delivery.timeout.ms": "1000"}, "delivery.timeout.ms should be equal to or larger than linger.ms [+] request.timeout.ms"),
    ],
)
def test_invalid_properties_are_refused_by_name(given: dict[str, str], said: str):
    with pytest.raises(OptionError, match=said):
        parse_producer_settings({**SERVERS, **given})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("acks", "1", "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."),
        ("retries", "0", "Must set retries to non-zero when using the idempotent producer."),
        ("max_in_flight_requests_per_connection", "6", "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent"),
    ],
)
def test_settings_that_forbid_idempotence_disable_it_unless_it_is_explicit(name: str, value: str, said: str):
    assert words(**{name: value})["enable.idempotence"] is False
    with pytest.raises(OptionError, match=said):
        words(**{name: value, "enable_idempotence": "true"})
    assert words(**{name: value, "enable_idempotence": "false"})["max.in.flight.requests.per.connection"] in (5, 6)
