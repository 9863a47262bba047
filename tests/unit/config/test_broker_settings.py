"""The table of broker settings, those of topics among them."""

import pytest

from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS


@pytest.mark.parametrize("setting", [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()], ids=lambda setting: setting.name)
def test_every_default_is_allowed(setting) -> None:
    assert not setting.default or setting.problem(setting.default) is None
