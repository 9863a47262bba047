"""Bounds on connections: of one address, of one broker, and of the process's descriptors. Kafka's ConnectionQuotas.

It counts connections and logs why one is refused; the server closes it.
"""

import socket
from collections.abc import Mapping
from ipaddress import ip_address
from logging import getLogger

from ottla.broker.network.descriptors import Descriptors
from ottla.broker.network.repeated_warning import RepeatedWarning
from ottla.core.config import BrokerConfig, ConfigError
from ottla.core.config.connection_overrides import connection_overrides

log = getLogger(__name__)


class ConnectionQuotas:
    """The connections of one broker, by the peer's address as the socket has it ("" when it has none)."""

    def __init__(self, *, connections_max: int, per_ip_max: int, overrides: Mapping[str, int], descriptors: Descriptors) -> None:
        self._connections_max = connections_max
        self._per_ip_max = per_ip_max
        self._overrides = overrides
        self._descriptors = descriptors
        self._connections = 0
        self._by_address: dict[str, int] = {}
        self._of_broker, self._of_address, self._of_process = RepeatedWarning(log), RepeatedWarning(log), RepeatedWarning(log)

    def admit(self, address: str, now_s: float) -> bool:
        """Counts a new connection, unless there are too many; that is logged."""
        descriptors, of_address = self._descriptors, self._by_address.get(address, 0)
        of_address_max = self._overrides.get(address, self._per_ip_max)
        if of_address >= of_address_max:
            self._of_address.warning(
                now_s,
                f"Rejected connection from {address}, address already has the configured maximum of {of_address_max} connections"
                " (max.connections.per.ip)",
            )
        elif self._connections >= self._connections_max:
            self._of_broker.warning(
                now_s,
                f"Rejected connection from {address}, the broker has the configured maximum of {self._connections_max} connections"
                " (max.connections)",
            )
        elif not descriptors.are_left:
            self._of_process.warning(
                now_s,
                f"Rejected connection from {address}: {descriptors.connections} connections are open, and the other file descriptors of"
                f" {descriptors.limit} are kept for files; raise the limit (ulimit -n)",
            )
        else:
            self._connections += 1
            descriptors.connections += 1
            self._by_address[address] = of_address + 1
            return True
        return False

    def leave(self, address: str) -> None:
        """A connection that was admitted has ended."""
        self._connections -= 1
        self._descriptors.connections -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]


def quotas(config: BrokerConfig, descriptors: Descriptors) -> ConnectionQuotas:
    """Those of a broker's settings. Raises ConfigError for a host name that cannot be resolved."""
    return ConnectionQuotas(
        connections_max=config.number("max.connections"),
        per_ip_max=config.number("max.connections.per.ip"),
        overrides=_by_address(connection_overrides(config.text("max.connections.per.ip.overrides"))),
        descriptors=descriptors,
    )


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
            raise ConfigError(f"max.connections.per.ip.overrides: the host {host} cannot be resolved: {error}") from error
        found |= dict.fromkeys(addresses, count)
    return found
