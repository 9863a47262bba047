"""Settings: what is refused, and with which sentence."""

import pytest

from ottla.core.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, ConfigError


@pytest.mark.parametrize("setting", [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()], ids=lambda setting: setting.name)
def test_every_default_is_allowed(setting) -> None:
    assert setting.problem(setting.default) is None


@pytest.mark.parametrize("setting", TOPIC_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_topic_setting_falls_back_to_a_broker_setting_with_the_same_default(setting) -> None:
    assert BROKER_SETTINGS[setting.broker_name].default == setting.default


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", str(2**31), "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "either true or false"),
        ("no.such.setting", "1", "unknown setting no.such.setting"),
        ("log.message.timestamp.type", "Now", "one of: CreateTime, LogAppendTime"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"),
    ],
)
def test_a_bad_broker_setting_is_refused_with_what_would_do(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BrokerConfig({name: value})


def test_given_values_win_over_defaults() -> None:
    config = BrokerConfig({"num.partitions": "7", "auto.create.topics.enable": "False"})
    assert (config.number("num.partitions"), config.flag("auto.create.topics.enable")) == (7, False)
    assert config.node_id == 1


def test_a_list_takes_several_choices_and_refuses_others() -> None:
    policy = TOPIC_SETTINGS["cleanup.policy"]
    assert policy.problem("compact,delete") is None
    assert policy.problem("compact,shred") is not None
    assert policy.problem(None) is not None
