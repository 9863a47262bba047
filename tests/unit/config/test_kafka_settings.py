"""The table of all settings that Apache Kafka describes; tests/kafka/test_describe_configs.py compares it with Apache Kafka."""

import pytest

from ottla.config import (
    BROKER_SETTINGS,
    FIXED_VALUES,
    KAFKA_BROKER_SETTINGS,
    KAFKA_GROUP_SETTINGS,
    KAFKA_TOPIC_SETTINGS,
    TOPIC_SETTINGS,
    ConfigType,
)


def test_it_has_as_many_as_kafka() -> None:
    assert (len(KAFKA_BROKER_SETTINGS), len(KAFKA_TOPIC_SETTINGS), len(KAFKA_GROUP_SETTINGS)) == (340, 33, 17)


def test_a_setting_is_in_one_table_only() -> None:
    served = {name for name, setting in BROKER_SETTINGS.items() if not setting.is_internal}
    assert served <= KAFKA_BROKER_SETTINGS.keys()
    assert TOPIC_SETTINGS.keys() <= KAFKA_TOPIC_SETTINGS.keys()
    without_effect = {name for name, setting in KAFKA_BROKER_SETTINGS.items() if "does not act on" in setting.doc}
    assert without_effect == KAFKA_BROKER_SETTINGS.keys() - served
    assert without_effect >= FIXED_VALUES.keys()


@pytest.mark.parametrize(
    ("name", "kind", "default", "is_dynamic"),
    [
        ("authorizer.class.name", ConfigType.STRING, "", False),
        ("broker.rack", ConfigType.STRING, None, False),
        ("log.retention.ms", ConfigType.LONG, None, True),
        ("log.retention.minutes", ConfigType.INT, None, False),
        ("security.providers", ConfigType.STRING, None, False),
        ("node.id", ConfigType.INT, None, False),
        ("ssl.key.password", ConfigType.PASSWORD, None, True),
        ("ssl.enabled.protocols", ConfigType.LIST, "TLSv1.2,TLSv1.3", True),
    ],
)
def test_some_of_them(name: str, kind: ConfigType, default: str | None, is_dynamic: bool) -> None:
    setting = KAFKA_BROKER_SETTINGS[name]
    assert (setting.type, setting.default, setting.is_dynamic) == (kind, default, is_dynamic)


def test_every_topic_setting_with_a_default_at_the_broker_names_it() -> None:
    names = {name: setting.broker_name for name, setting in KAFKA_TOPIC_SETTINGS.items()}
    assert {name for name in names.values() if name} <= KAFKA_BROKER_SETTINGS.keys()
    assert [name for name, broker_name in names.items() if broker_name is None] == [
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    ]
    assert names["local.retention.ms"] == "log.local.retention.ms"
