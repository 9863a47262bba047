"""The table of topic settings."""

import pytest

from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS


@pytest.mark.parametrize("setting", TOPIC_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_topic_setting_falls_back_to_a_broker_setting_with_the_same_default(setting) -> None:
    assert BROKER_SETTINGS[setting.broker_name].default == setting.default
