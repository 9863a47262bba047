"""Making a connection as the settings say: where, how long, encrypted or not, and as whom."""

from ottla.consumer.addresses import Address
from ottla.consumer.connection import Connection
from ottla.consumer.settings import ClientSettings


def connect(address: Address, settings: ClientSettings, timeout_ms: int) -> Connection:
    """A connection that is ready for requests. Raises BrokerUnavailableError, AuthenticationError or UnsupportedBrokerError."""
    setup_ms = min(timeout_ms, settings.socket_connection_setup_timeout_ms)
    return Connection(*address, client_id=settings.client_id, timeout_ms=setup_ms)
