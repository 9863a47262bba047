"""Making a connection as the settings say: where, how long it may take, encrypted or not, and as whom."""

from secrets import token_urlsafe

from ottla.consumer.addresses import Address
from ottla.consumer.authentication import authenticate
from ottla.consumer.connection import Connection
from ottla.consumer.settings import ClientSettings
from ottla.consumer.tls import tls_context

_NONCE_BYTES = 24


def connect(address: Address, settings: ClientSettings, timeout_ms: int) -> Connection:
    """A connection that is ready for requests; `timeout_ms` holds for connecting and for each answer.

    Raises BrokerUnavailableError, AuthenticationError or UnsupportedBrokerError, and PeerError when what listens there is no broker.
    """
    security = settings.security
    connection = Connection(
        *address,
        client_id=settings.client_id,
        timeout_ms=min(timeout_ms, settings.socket_connection_setup_timeout_ms),
        tls=tls_context(security) if security.uses_tls else None,
        receive_buffer_bytes=settings.receive_buffer_bytes,
        send_buffer_bytes=settings.send_buffer_bytes,
    )
    try:
        if security.uses_sasl:
            connection.end_after(authenticate(connection, security, token_urlsafe(_NONCE_BYTES)))
    except BaseException:
        connection.close()
        raise
    connection.timeout_ms = timeout_ms
    return connection
