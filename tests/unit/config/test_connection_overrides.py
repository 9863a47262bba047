"""Kafka's list of bounds by host, and the checks of the settings that belong together."""

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.config.connection_overrides import connection_overrides


def test_pairs() -> None:
    assert connection_overrides("") == {}
    assert connection_overrides("host:1, 127.0.0.1 : 2 ,::1:3,") == {"host": 1, "127.0.0.1": 2, "::1": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host", "invalid addresses"),
        ("a b:1", "invalid addresses"),
        (":5", "invalid addresses"),
        ("h:x", "not a number"),
        ("h:-1", "not a number"),
    ],
)
def test_what_is_no_list_of_pairs(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        connection_overrides(text)
    with pytest.raises(ConfigError, match=words):
        BrokerConfig({"max.connections.per.ip.overrides": text})


def test_settings_that_belong_together() -> None:
    with pytest.raises(ConfigError, match=r"only if max\.connections\.per\.ip\.overrides property is set"):
        BrokerConfig({"max.connections.per.ip": "0"})
    BrokerConfig({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"})
    with pytest.raises(ConfigError, match=r"queued\.max\.request\.bytes must be larger or equal"):
        BrokerConfig({"queued.max.request.bytes": "1000"})
    BrokerConfig({"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"})
