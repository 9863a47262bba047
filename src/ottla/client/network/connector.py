"""Opens connections as the settings say: socket options, timeouts, TLS, authentication."""

import socket
import ssl
from collections.abc import Callable
from secrets import token_urlsafe

from ottla.client.addresses import Address
from ottla.client.network.authentication import authenticate
from ottla.client.network.connection import BrokerConnection
from ottla.client.security.tls import tls_context
from ottla.client.settings import ClientSettings

_NONCE_BYTES = 24


def connect(
    address: Address,
    settings: ClientSettings,
    timeout_ms: int,
    *,
    tls: ssl.SSLContext | None = None,
    opening: Callable[[socket.socket], None] | None = None,
) -> BrokerConnection:
    """A connection that is ready for requests; `timeout_ms` holds for connecting and for each answer.

    `tls` takes the place of the context that the settings describe, where they want encryption. `opening` gets the socket, as in
    `BrokerConnection`.

    Raises BrokerUnavailableError, AuthenticationError or UnsupportedBrokerError, and PeerError when the peer is no broker.
    """
    security = settings.security
    connection = BrokerConnection(
        *address,
        client_id=settings.client_id,
        timeout_ms=min(timeout_ms, settings.socket_connection_setup_timeout_ms),
        tls=(tls or tls_context(security)) if security.uses_tls else None,
        receive_buffer_bytes=settings.receive_buffer_bytes,
        send_buffer_bytes=settings.send_buffer_bytes,
        opening=opening,
    )
    try:
        if security.uses_sasl:
            connection.end_after(authenticate(connection, security, token_urlsafe(_NONCE_BYTES)))
    except BaseException:
        connection.close()
        raise
    connection.timeout_ms = timeout_ms
    return connection
