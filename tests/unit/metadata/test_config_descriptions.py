"""The description of settings: values, sources and synonyms as Apache Kafka 4.3 gave them for the same changes."""

import pytest

from ottla.config import BrokerConfig, ConfigType
from ottla.metadata.config_descriptions import ConfigDescription, ConfigDescriptions
from ottla.metadata.records import ConfigRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE, ResourceConfigs

BROKER, ALL, TOPIC = (BROKER_RESOURCE, "1"), (BROKER_RESOURCE, ""), (TOPIC_RESOURCE, "t")
Stored = tuple[tuple[int, str], str, str]


def made(*stored: Stored, broker_id: int = 1, **given: str) -> ConfigDescriptions:
    config = BrokerConfig({name.replace("_", "."): value for name, value in given.items()})
    configs = ResourceConfigs(1, config.text)
    for (kind, resource), name, value in stored:
        configs.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    return ConfigDescriptions(configs, config.given, broker_id=broker_id)


def of_broker(descriptions: ConfigDescriptions) -> dict[str, ConfigDescription]:
    return {each.name: each for each in descriptions.of_broker()}


def of_topic(descriptions: ConfigDescriptions) -> dict[str, ConfigDescription]:
    return {each.name: each for each in descriptions.of_topic("t")}


def short(described: ConfigDescription) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    return described.value, int(described.source), [(each.name, each.value, int(each.source)) for each in described.synonyms]


def test_the_values_of_one_broker_precede_those_of_all_then_those_given_then_the_default() -> None:
    found = of_broker(made((BROKER, "log.segment.bytes", " 2000000 "), (ALL, "log.segment.bytes", "3000000"), log_segment_bytes="4000000"))
    name = "log.segment.bytes"
    assert short(found[name]) == (
        "2000000",
        2,
        [(name, " 2000000 ", 2), (name, "3000000", 3), (name, "4000000", 4), (name, "1073741824", 5)],
    )
    assert not found[name].is_read_only


def test_another_broker_of_the_process_has_what_was_set_on_it() -> None:
    name, stored = "log.segment.bytes", [((BROKER_RESOURCE, owner), "log.segment.bytes", f"{owner or 3}000000") for owner in ("1", "2", "")]
    found = of_broker(made(*stored, broker_id=2))
    assert short(found[name]) == ("2000000", 2, [(name, "2000000", 2), (name, "3000000", 3), (name, "1073741824", 5)])
    assert short(of_broker(made(stored[0], broker_id=2))[name]) == ("1073741824", 5, [(name, "1073741824", 5)])


def test_a_value_that_was_given_is_static_also_where_it_is_the_default() -> None:
    found = of_broker(made(num_partitions="1"))
    assert short(found["num.partitions"]) == ("1", 4, [("num.partitions", "1", 4), ("num.partitions", "1", 5)])
    assert found["num.partitions"].is_read_only


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "log.retention.ms",
            ("99", 2, [("log.retention.ms", "99", 2), ("log.retention.minutes", "120", 4), ("log.retention.hours", "168", 5)]),
        ),
        ("log.retention.minutes", ("120", 4, [("log.retention.minutes", "120", 4), ("log.retention.hours", "168", 5)])),
        ("log.retention.hours", ("168", 5, [("log.retention.hours", "168", 5)])),
        ("log.roll.ms", (None, 5, [])),
    ],
)
def test_values_in_other_units_come_after_one_of_the_settings_own(name: str, expected: object) -> None:
    assert short(of_broker(made((BROKER, "log.retention.ms", "99"), log_retention_minutes="120"))[name]) == expected


def test_a_topic_has_its_own_value_or_the_brokers() -> None:
    descriptions = made(
        (TOPIC, "segment.ms", " +7"), (ALL, "log.roll.ms", "99"), (ALL, "log.flush.interval.ms", "5"), log_retention_minutes="2"
    )
    found = of_topic(descriptions)
    assert short(found["segment.ms"]) == ("7", 1, [("segment.ms", "7", 1), ("log.roll.ms", "99", 3), ("log.roll.hours", "168", 5)])
    assert short(found["flush.ms"])[:2] == ("5", 3)
    assert short(found["retention.ms"]) == ("120000", 5, []), "as Kafka, which lists no value in another unit alone"
    assert not any(each.is_read_only or each.is_sensitive for each in found.values())


def test_what_has_no_effect_is_described_with_kafkas_default_or_what_was_set() -> None:
    descriptions = made((TOPIC, "local.retention.ms", "5"), (BROKER, "ssl.key.password", "secret"), (BROKER, "ssl.protocol", "TLSv1.2"))
    found = of_broker(descriptions)
    password = found["ssl.key.password"]
    assert (password.value, password.is_sensitive, [each.value for each in password.synonyms]) == (None, True, [None])
    assert short(found["ssl.protocol"]) == ("TLSv1.2", 2, [("ssl.protocol", "TLSv1.2", 2), ("ssl.protocol", "TLSv1.3", 5)])
    assert short(of_topic(descriptions)["local.retention.ms"])[:2] == ("5", 1)
    assert short(of_topic(descriptions)["local.retention.bytes"]) == ("-2", 5, [("log.local.retention.bytes", "-2", 5)])
    assert found["ssl.protocol"].doc == "A setting of Apache Kafka that this broker does not act on."


def test_of_all_brokers_only_what_was_set_is_described() -> None:
    descriptions = made(
        (ALL, "log.segment.bytes", "3000000"), (ALL, "ssl.key.password", "x"), (ALL, "later.kafka", "y"), num_partitions="3"
    )
    found = {each.name: short(each) for each in descriptions.of_all_brokers()}
    assert found == {
        "log.segment.bytes": ("3000000", 3, [("log.segment.bytes", "3000000", 3)]),
        "ssl.key.password": (None, 3, [("ssl.key.password", None, 3)]),
        "later.kafka": (None, 3, [("later.kafka", None, 3)]),
    }


def test_unknown_settings_of_brokers_may_be_secrets() -> None:
    descriptions = made((BROKER, "later.kafka", "x"), (TOPIC, "later.kafka", "y"), (BROKER, "log.initial.task.delay.ms", "5"))
    ours, theirs = of_broker(descriptions)["later.kafka"], of_topic(descriptions)["later.kafka"]
    assert (ours.value, ours.is_sensitive, ours.is_read_only, ours.type) == (None, True, True, ConfigType.UNKNOWN)
    assert (theirs.value, theirs.is_sensitive, theirs.is_read_only, theirs.source) == ("y", False, False, 1)
    assert "log.initial.task.delay.ms" not in of_broker(descriptions), "internal, as in Kafka"


def test_an_invalid_value_is_not_in_force() -> None:
    found = of_broker(made((BROKER, "log.segment.bytes", "soon"), (ALL, "log.segment.bytes", "3000000")))
    assert short(found["log.segment.bytes"])[:2] == ("3000000", 3)
