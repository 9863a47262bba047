"""How many brokers may listen where; their life is in test_broker and test_cluster."""

import pytest

from ottla.broker.task import BROKERS_MAX, check_count, parse_listen
from ottla.core.config import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9092", ("::1", 9092)), ("localhost:65535", ("localhost", 65535))]
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "9092", ":9092", "host:", "host:port", "host:65536", "host:-1"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("brokers", "listen", "words"),
    [
        (0, "h:0", "write a number from 1 to 100"),
        (BROKERS_MAX + 1, "h:0", "write a number from 1 to 100"),
        (3, "h:65534", "the last port is 65535"),
        (1, "nowhere", "HOST:PORT"),
    ],
)
def test_counts_that_cannot_be(brokers: int, listen: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_count(brokers, listen)


@pytest.mark.parametrize(("brokers", "listen"), [(1, "h:65535"), (BROKERS_MAX, "h:0"), (2, "h:65534")])
def test_counts_that_can(brokers: int, listen: str) -> None:
    check_count(brokers, listen)
