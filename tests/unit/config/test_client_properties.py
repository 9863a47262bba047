"""The table of client properties: what every row has to say, and how properties are read by it."""

import re
from pathlib import Path

import pytest

from ottla.config.client_properties import OWN, PROPERTIES, PropertyError, default_values, property_names, read_properties
from ottla.config.client_property import Client, Effect

SPELLINGS = [name for row in PROPERTIES.values() if Client.CONSUMER in row.support for name in (row.librdkafka, *row.also) if name]


def test_every_reason_is_the_end_of_a_sentence() -> None:
    reasons = {(row.name, each.why) for row in PROPERTIES.values() for each in row.support.values() if each.effect is not Effect.APPLIED}
    assert [(name, why) for name, why in reasons if len(why) < 10 or why.endswith(".") or not (why[0].islower() or why[:4] == "Java")] == []


def test_a_spelling_means_one_property() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS)
    assert not property_names(Client.CONSUMER) & set(SPELLINGS)


@pytest.mark.parametrize("client", Client)
def test_a_default_is_a_value(client: Client) -> None:
    values = default_values(client)
    assert read_properties(values, client) == values


@pytest.mark.parametrize(("page", "client"), [("clients.md", Client.RANGES), ("consumer.md", Client.CONSUMER)])
def test_documented_defaults_are_in_force(page: str, client: Client) -> None:
    defaults = {name: str(value).lower() for name, value in default_values(client).items()}
    text = (Path(__file__).parents[3] / "docs" / page).read_text().partition("## Security")[0]
    documented = {}
    for names, values in re.findall(r"^\| (`[^|]*`) \| ([^|]+) \|", text, re.M):
        properties, written = re.findall(r"`([^`]+)`", names), re.sub(r"[*`]", "", values).split(", ")
        row = zip(properties, written if len(written) > 1 else written * len(properties))
        documented |= {name: value for name, value in row if name in defaults}
    assert len(documented) > 10
    assert documented == {name: defaults[name] for name in documented}


def test_two_spellings() -> None:
    given = {"fetch.wait.max.ms": 7, "fetch.message.max.bytes": "6", "max.partition.fetch.bytes": "5", "client.id": None}
    assert read_properties(given, Client.CONSUMER) == {"fetch.max.wait.ms": 7, "max.partition.fetch.bytes": 6}
    with pytest.raises(PropertyError, match=r"^fetch.wait.max.ms is no property of a Kafka consumer; did you mean 'fetch.max.wait.ms'"):
        read_properties(given, Client.RANGES)


def test_values_of_python() -> None:
    given = {"enable.auto.commit": False, "on_commit": print, "session.timeout.ms": 6_000, "group.id": 5}
    assert read_properties(given | {"check.crcs": True, "acks": "all"}, Client.CONSUMER) == given | {"group.id": "5"}


def test_what_a_file_may_say_of_a_consumer_alone() -> None:
    assert {"group.id", "session.timeout.ms", "auto.offset.reset", "enable.partition.eof", "queued.max.messages.kbytes"} <= OWN
    assert not OWN & {"key.deserializer", "interceptor.classes", "on_commit", "sasl.username", "ssl.key.location", "client.id"}
