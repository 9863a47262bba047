"""Making a connection as the settings say: where, how long, encrypted or not, and as whom."""

from ottla.consumer.addresses import Address
from ottla.consumer.connection import Connection
from ottla.consumer.settings import ClientSettings


def connect(address: Address, settings: ClientSettings, timeout_ms: int) -> Connection:
    """A connection that is ready for requests. Raises BrokerUnavailableError, AuthenticationError or UnsupportedBrokerError."""
    return Connection(*address, client_id=settings.client_id, timeout_ms=timeout_ms)
