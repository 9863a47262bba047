"""The listeners of a broker: `listeners`, `advertised.listeners` and what belongs to them, in Kafka's grammar (KIP-103).

Of several brokers in a process, each after the first
takes the next port of every listener, and advertises the next port too; port 0 takes any free one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.config.security_settings import is_of_listener, listener_prefix
from ottla.config.setting import ConfigError, shown

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Kafka's security protocols; a protocol's place is its number in KRaft's records."""
PORT_MAX: Final = 65535
_PORT_DIGITS_MAX: Final = 5
_HOST_CHARS_MAX: Final = 253
_LISTENER: Final = re.compile(r"([^:/\s]+)://(.*)", re.DOTALL)
_ALL_INTERFACES: Final = "0.0.0.0"
_WILDCARDS: Final = {_ALL_INTERFACES: "127.0.0.1", "::": "::1"}


class ListenerConfig(NamedTuple):
    """One listener: where the first broker accepts connections, and where clients find it; None where it is not advertised.

    An advertised port of 0 is the port that is listened on. `protocol` is one of PROTOCOLS.
    """

    name: str
    host: str
    port: int
    advertised: tuple[str, int] | None
    protocol: str = PLAINTEXT

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether its clients authenticate with SASL."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)


def connectable(host: str) -> str:
    """A host that clients on this machine can connect to: a wildcard address is none."""
    return _WILDCARDS.get(host, host)


def parse_listen(listen: str) -> tuple[str, int]:
    """`HOST:PORT` in two; raises ConfigError, which says what to write instead."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or "/" in host or not (port.isdecimal() and len(port) <= _PORT_DIGITS_MAX) or int(port) > PORT_MAX:
        raise ConfigError(f"cannot listen on {shown(listen)!r}: write HOST:PORT, for example 127.0.0.1:9092 (port 0 takes any free one)")
    host = host.strip("[]")
    try:
        is_name = "\0" not in host and bool(host.encode("idna"))
    except UnicodeError:
        is_name = False
    if not is_name or len(host) > _HOST_CHARS_MAX:
        what = f"a name has at most {_HOST_CHARS_MAX} characters, and 63 between two dots"
        raise ConfigError(f"cannot listen on {shown(listen)!r}: {shown(host)!r} is not a host name or address ({what})")
    return host, int(port)


def broker_listeners(text: Callable[[str], str], listen: str, brokers: int) -> tuple[ListenerConfig, ...]:
    """The listeners by the settings; where there is no setting `listeners`, one at `listen` with the name PLAINTEXT. `text` gives a
    setting's value by name. Raises ConfigError.
    """
    given = text("listeners")
    addresses = _addresses("listeners", given) if given else {PLAINTEXT: parse_listen(listen)}
    protocols = _protocols(text("listener.security.protocol.map"), addresses)
    advertised = _advertised(text("advertised.listeners"), addresses)
    inter_broker = text("inter.broker.listener.name").upper()
    if inter_broker and inter_broker not in advertised:
        raise ConfigError(
            f"inter.broker.listener.name must be one of the listeners in advertised.listeners ({', '.join(advertised)}),"
            f" not {shown(inter_broker)}"
        )
    listeners = tuple(ListenerConfig(name, host, port, advertised.get(name), protocols[name]) for name, (host, port) in addresses.items())
    _check_ports(listeners, brokers)
    return listeners


def _addresses(setting: str, value: str) -> dict[str, tuple[str, int]]:
    addresses: dict[str, tuple[str, int]] = {}
    for item in value.split(","):
        match = _LISTENER.fullmatch(item.strip())
        if match is None:
            raise ConfigError(
                f"{setting}: {shown(item.strip())!r} is no listener; write NAME://HOST:PORT, for example PLAINTEXT://127.0.0.1:9092"
            )
        name, address = match[1].upper(), match[2]
        if name in addresses:
            raise ConfigError(f"{setting}: each listener must have a different name, and {name} is there twice")
        try:
            addresses[name] = parse_listen(_ALL_INTERFACES + address if address.startswith(":") else address)
        except ConfigError as error:
            raise ConfigError(f"{setting}, {name}: {error}") from error
    return addresses


def _protocols(value: str, addresses: dict[str, tuple[str, int]]) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for item in value.split(","):
        name, colon, protocol = item.strip().rpartition(":")
        if not colon or protocol.upper() not in PROTOCOLS or name.upper() in protocols:
            raise ConfigError(
                f"listener.security.protocol.map: {shown(item.strip())!r} is no entry; write NAME:PROTOCOL once for each name,"
                f" for example INSIDE:PLAINTEXT (Kafka's protocols are {', '.join(PROTOCOLS)})"
            )
        protocols[name.upper()] = protocol.upper()
    for name in addresses:
        if name not in protocols:
            raise ConfigError(
                f"no security protocol is given for the listener {name}: add {name}:PLAINTEXT to listener.security.protocol.map"
            )
    return protocols


def unused_listener_setting(given: Iterable[str], listeners: Sequence[ListenerConfig]) -> str | None:
    """The name of a setting `listener.name.<listener>...` of a listener that there is not; None where there is none."""
    prefixes = tuple(listener_prefix(listener.name) for listener in listeners)
    return next((name for name in given if is_of_listener(name) and not name.startswith(prefixes)), None)


def _advertised(value: str, addresses: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    if not value:
        return {name: (connectable(host), 0) for name, (host, _) in addresses.items()}
    advertised = _addresses("advertised.listeners", value)
    for name, (host, _) in advertised.items():
        if name not in addresses:
            raise ConfigError(f"advertised.listeners: {name} is not one of the listeners ({', '.join(addresses)})")
        if host in _WILDCARDS:
            raise ConfigError(f"advertised.listeners: clients cannot connect to {host}; write a host name or an address of this machine")
    return advertised


def _check_ports(listeners: tuple[ListenerConfig, ...], brokers: int) -> None:
    """Each broker has the next port of every listener: no two may meet, unless one is of IPv4 and the other of IPv6."""
    taken: list[tuple[str, int]] = []
    for _, host, first_port, advertised, _protocol in listeners:
        for port in (first_port, advertised[1] if advertised else 0):
            if port and port + brokers - 1 > PORT_MAX:
                raise ConfigError(f"{brokers} brokers cannot listen on port {port} and those that follow: the last port is {PORT_MAX}")
        for port in range(first_port, first_port + brokers) if first_port else ():
            if any(port == other_port and not _are_of_two_families(host, other_host) for other_host, other_port in taken):
                raise ConfigError(
                    f"listeners: each must have a different port, and {port} is there twice"
                    + (f" ({brokers} brokers take {brokers} ports of each)" if brokers > 1 else "")
                )
        taken += [(host, port) for port in range(first_port, first_port + brokers) if first_port]


def _are_of_two_families(first: str, second: str) -> bool:
    try:
        return ip_address(first).version != ip_address(second).version
    except ValueError:
        return False
