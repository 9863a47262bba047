"""What protects a listener: TLS and SASL by its protocol and settings; and which listeners are open to everybody."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final

from ottla.broker.network.authentication import SaslConnection, SaslSettings, ScramCredentials
from ottla.broker.network.connection import Connection, Listener
from ottla.broker.network.tls import RECEIVE_BYTES, TlsSettings, TlsTransport
from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import ListenerConfig, unused_listener_setting
from ottla.config.security_settings import OPEN_LISTENERS, SERVED_MECHANISMS, listener_prefix

log = logging.getLogger(__name__)

_LOCAL_NAME: Final = "localhost"


class SecuredListener:
    """TLS, SASL or both of one listener."""

    def __init__(self, tls: TlsSettings | None, sasl: SaslSettings | None) -> None:
        self._tls = tls
        self._sasl = sasl
        self._receive_buffer = memoryview(bytearray(RECEIVE_BYTES if tls is not None else 0))

    def connection(self, listener: Listener) -> asyncio.BaseProtocol:
        """A protocol for a new socket."""
        connection = Connection(listener) if self._sasl is None else SaslConnection(listener, self._sasl)
        return connection if self._tls is None else TlsTransport(self._tls, listener, connection, self._receive_buffer)

    def reload(self) -> None:
        """Read certificates again that have changed."""
        if self._tls is not None:
            self._tls.reload()


def listener_security(
    listener: ListenerConfig,
    config: BrokerConfig,
    scram: ScramCredentials,
    *,
    clock: Callable[[], int],
    wall_clock: Callable[[], int],
    secret: bytes,
) -> SecuredListener | None:
    """What the listener's protocol and settings ask for; None for PLAINTEXT. Reads key and trust stores. Raises ConfigError."""
    settings = config.of_listener(listener.name)
    tls = TlsSettings(settings, has_sasl=listener.has_sasl) if listener.has_tls else None
    if not listener.has_sasl:
        return None if tls is None else SecuredListener(tls, None)
    if settings.own_text("sasl.jaas.config") is not None or config.given.get("sasl.jaas.config") is not None:
        log.warning(
            "sasl.jaas.config has no effect without a mechanism: write %s<mechanism>.sasl.jaas.config", listener_prefix(listener.name)
        )
    sasl = SaslSettings(
        settings,
        scram,
        failure_delay_ms=config.number("connection.failed.authentication.delay.ms"),
        clock=clock,
        wall_clock=wall_clock,
        is_local=is_local(listener.host),
        secret=secret,
    )
    return SecuredListener(tls, sasl)


def check_listeners(listeners: Sequence[ListenerConfig], metrics: tuple[str, int] | None, config: BrokerConfig) -> None:
    """Raise ConfigError for a listener, or the metrics' address, that other machines reach and that asks nobody who they are.

    Settings of listeners that there are not, and listeners without a certificate or a mechanism, are refused as well. Reads no file.
    """
    unused = unused_listener_setting(config.given, listeners)
    if unused is not None:
        raise ConfigError(f"{unused} is about a listener that there is not: the listeners are {', '.join(each.name for each in listeners)}")
    for listener in listeners:
        settings = config.of_listener(listener.name)
        if listener.has_tls and not (settings.text("ssl.keystore.location") or settings.text("ssl.keystore.key")):
            raise ConfigError(
                f"the listener {listener.name} has the protocol {listener.protocol}, and no certificate: give ssl.keystore.type with"
                " ssl.keystore.location, or with ssl.keystore.key and ssl.keystore.certificate.chain (`ottla docs security`)"
            )
        if listener.has_sasl and not set(settings.items("sasl.enabled.mechanisms")) & set(SERVED_MECHANISMS):
            raise ConfigError(
                f"the listener {listener.name} has the protocol {listener.protocol}: give sasl.enabled.mechanisms, some of"
                f" {', '.join(SERVED_MECHANISMS)} (`ottla docs security`)"
            )
    open_to_others = [listener for listener in listeners if not is_local(listener.host)]
    if config.flag(OPEN_LISTENERS):
        return
    hint = f"or, if it shall be open to everybody, say so: {OPEN_LISTENERS}=true"
    for listener in open_to_others:
        is_certified = listener.has_tls and config.of_listener(listener.name).text("ssl.client.auth") == "required"
        if not (listener.has_sasl or is_certified):
            raise ConfigError(
                f"listener {listener.name} ({listener.host}) can be reached from other machines, and {listener.protocol} lets in everybody:"
                f" give it the protocol SASL_SSL, SASL_PLAINTEXT, or SSL with ssl.client.auth=required (`ottla docs security`); listen on"
                f" 127.0.0.1; {hint}"
            )
    if metrics is not None and not is_local(metrics[0]):
        raise ConfigError(f"the metrics at {metrics[0]} can be read from other machines by everybody: listen on 127.0.0.1; {hint}")


def warn_of_listeners(listeners: Sequence[ListenerConfig], config: BrokerConfig) -> None:
    """Log what is weak about listeners that other machines reach."""
    open_to_others = [listener for listener in listeners if not is_local(listener.host)]
    names = ", ".join(listener.name for listener in open_to_others)
    if open_to_others and not config.text("authorizer.class.name"):
        log.warning("there are no ACLs: who comes in by %s may do everything (`ottla docs acls`)", names)
    for listener in open_to_others:
        if listener.protocol == "SASL_PLAINTEXT":
            log.warning("listener %s (%s): passwords and tokens cross the network without encryption", listener.name, listener.host)


def is_local(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone; or cannot be listened on, as its name is unknown."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    if host.lower() == _LOCAL_NAME:
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return all(ip_address(str(info[4][0]).partition("%")[0]).is_loopback for info in found)
