"""The most connections of the broker and of one address, as the settings in force say: they may change while the broker runs."""

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from logging import getLogger
from typing import Final

from ottla.core.config import ConfigError, ConfigSource
from ottla.core.config.connection_overrides import connection_overrides
from ottla.core.metadata.resource_configs import ResourceConfigs

log = getLogger(__name__)

_OVERRIDES: Final = "max.connections.per.ip.overrides"


class ConnectionLimits:
    """Read at each connection. Connections that are open stay open when a limit becomes lower, as in Kafka."""

    def __init__(self, configs: ResourceConfigs) -> None:
        self._configs = configs
        self._text = ""
        self._overrides: Mapping[str, int] = {}
        self._resolving: asyncio.Task[None] | None = None

    @property
    def connections_max(self) -> int:
        """Of one broker."""
        return self._configs.broker_number("max.connections")

    def of_address(self, address: str) -> int:
        """Of one address."""
        found = self._overrides.get(address)
        return self._configs.broker_number("max.connections.per.ip") if found is None else found

    def load(self) -> None:
        """Read the overrides, at start. Raises ConfigError for a host name in `--config` that cannot be resolved."""
        self._text, source = self._configs.broker_value(_OVERRIDES)
        try:
            self._overrides = _by_address(connection_overrides(self._text))
        except ConfigError as error:
            if source is ConfigSource.STATIC_BROKER:
                raise
            log.warning("%s; the overrides have no effect", error)

    def settings_changed(self) -> None:
        """Read the overrides again; host names are resolved in another thread, and the old overrides apply until then."""
        text, _ = self._configs.broker_value(_OVERRIDES)
        if text != self._text:
            self._text = text
            self._resolving = asyncio.get_running_loop().create_task(self._resolve(text))

    async def _resolve(self, text: str) -> None:
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, _by_address, connection_overrides(text))
        except ConfigError as error:
            log.warning("%s; the overrides before this change apply", error)
        else:
            if text == self._text:
                self._overrides = found


def _by_address(overrides: Mapping[str, int]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for host, count in overrides.items():
        try:
            found[str(ip_address(host))] = count
            continue
        except ValueError:
            pass
        try:
            addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        except OSError as error:
            raise ConfigError(f"{_OVERRIDES}: the host {host} cannot be resolved: {error}") from error
        found |= dict.fromkeys(addresses, count)
    return found
