"""Listeners in Kafka's grammar: names, addresses, protocols, and what cannot be."""

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import ListenerConfig, broker_listeners, parse_listen


def listeners(brokers: int = 1, listen: str = "127.0.0.1:9092", **settings: str) -> tuple[ListenerConfig, ...]:
    """`settings` have an underscore for a dot."""
    return broker_listeners(BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}).text, listen, brokers)


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9092", ("::1", 9092)), ("localhost:65535", ("localhost", 65535))]
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "9092", ":9092", "host:", "host:port", "host:65536", "host:-1", "host:" + "1" * 5000])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_listen(text)


@pytest.mark.parametrize("host", ["a" * 64, "a" * 5000, ".".join(["a" * 60] * 5), "a..b", "a\0b", "..."])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name or address") as refused:
        parse_listen(f"{host}:0")
    assert len(str(refused.value)) < 1500


def test_without_the_setting_there_is_one_with_the_name_plaintext() -> None:
    assert listeners() == (ListenerConfig("PLAINTEXT", "127.0.0.1", 9092, ("127.0.0.1", 0)),)


def test_several_listeners_with_addresses_of_their_own() -> None:
    found = listeners(
        listeners="INSIDE://127.0.0.1:9092, outside://:9093",
        listener_security_protocol_map="INSIDE:PLAINTEXT,Outside:plaintext",
        advertised_listeners="OUTSIDE://kafka.example:19093,INSIDE://127.0.0.1:0",
        inter_broker_listener_name="inside",
    )
    assert found == (
        ListenerConfig("INSIDE", "127.0.0.1", 9092, ("127.0.0.1", 0)),
        ListenerConfig("OUTSIDE", "0.0.0.0", 9093, ("kafka.example", 19093)),
    )


def test_a_wildcard_address_is_advertised_as_this_machine() -> None:
    assert listeners(listeners="PLAINTEXT://[::]:9092")[0].advertised == ("::1", 0)


def test_a_listener_that_is_not_advertised() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT"
    given = listeners(listeners="A://h:1,B://h:2", listener_security_protocol_map=names, advertised_listeners="B://h:2")
    assert [(listener.name, listener.advertised) for listener in given] == [("A", None), ("B", ("h", 2))]


@pytest.mark.parametrize("value", ["PLAINTEXT://127.0.0.1:9092,INSIDE://[::1]:9092", "PLAINTEXT://h:0,INSIDE://h:0"])
def test_one_port_for_both_families_of_addresses_or_any_free_one(value: str) -> None:
    assert len(listeners(listeners=value, listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT")) == 2


@pytest.mark.parametrize("name", ["listeners", "advertised_listeners", "inter_broker_listener_name"])
def test_a_setting_without_a_value_is_left_out_instead(name: str) -> None:
    with pytest.raises(ConfigError, match="must not be empty: leave it out"):
        listeners(**{name: ""})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": "127.0.0.1:9092"}, "write NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "listeners, PLAINTEXT: cannot listen on '127.0.0.1'"),
        ({"listeners": "PLAINTEXT://h:1,plaintext://h:2"}, "PLAINTEXT is there twice"),
        ({"listeners": "INSIDE://h:1"}, "add INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ({"listener_security_protocol_map": "A:PLAIN"}, "'A:PLAIN' is no entry"),
        ({"listener_security_protocol_map": "A:PLAINTEXT,a:SSL"}, "once for each name"),
        ({"advertised_listeners": "OTHER://h:1"}, "OTHER is not one of the listeners"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0"),
        ({"inter_broker_listener_name": "OTHER"}, "must be one of the listeners in advertised.listeners"),
        (
            {"listeners": "A://h:1,B://i:1", "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"},
            "each must have a different port, and 1 is there twice",
        ),
    ],
)
def test_what_cannot_be(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        listeners(**settings)
    assert words in str(refused.value)


def test_ports_of_several_brokers_do_not_meet() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT"
    assert listeners(2, listeners="A://h:10,B://h:12", listener_security_protocol_map=names)
    with pytest.raises(ConfigError, match=r"12 is there twice \(3 brokers take 3 ports of each\)"):
        listeners(3, listeners="A://h:10,B://h:12", listener_security_protocol_map=names)
    with pytest.raises(ConfigError, match="the last port is 65535"):
        listeners(3, advertised_listeners="PLAINTEXT://h:65534")
