"""Bounds on connections: of one address, of one broker, and of the process's descriptors. Kafka's ConnectionQuotas.

It counts connections and logs why one is refused; the server closes it.
"""

from logging import getLogger

from ottla.broker.network.connection_limits import ConnectionLimits
from ottla.broker.network.descriptors import Descriptors
from ottla.broker.network.repeated_warning import RepeatedWarning

log = getLogger(__name__)


class ConnectionQuotas:
    """The connections of one broker, by the peer's address as the socket has it ("" when it has none)."""

    def __init__(self, limits: ConnectionLimits, descriptors: Descriptors) -> None:
        self._limits = limits
        self._descriptors = descriptors
        self._connections = 0
        self._by_address: dict[str, int] = {}
        self._of_broker, self._of_address, self._of_process = RepeatedWarning(log), RepeatedWarning(log), RepeatedWarning(log)

    def admit(self, address: str, now_s: float) -> bool:
        """Counts a new connection, unless there are too many; that is logged."""
        descriptors, of_address = self._descriptors, self._by_address.get(address, 0)
        of_address_max, connections_max = self._limits.of_address(address), self._limits.connections_max
        if of_address >= of_address_max:
            self._of_address.warning(
                now_s,
                f"Rejected connection from {address}, address already has the configured maximum of {of_address_max} connections"
                " (max.connections.per.ip)",
            )
        elif self._connections >= connections_max:
            self._of_broker.warning(
                now_s,
                f"Rejected connection from {address}, the broker has the configured maximum of {connections_max} connections"
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
