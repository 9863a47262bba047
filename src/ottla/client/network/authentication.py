"""Authentication over a new connection: SaslHandshake and SaslAuthenticate, with PLAIN, SCRAM or OAUTHBEARER.

The exchanges themselves are pure (`ottla.security`). A refusal is an AuthenticationError and is never retried.
Sources: KIP-152 (SaslAuthenticate), KIP-368 (a session's lifetime).
"""

from typing import Any, Final

from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from ottla.client.errors import AuthenticationError, error_code
from ottla.client.network.connection import BrokerConnection
from ottla.client.security.properties import PLAIN, SecuritySettings
from ottla.client.security.tokens import TokenProvider
from ottla.protocol.errors import ErrorCode
from ottla.security.oauthbearer import ACKNOWLEDGEMENT, initial_response, refusal
from ottla.security.scram import ScramClient, plain

_HANDSHAKE: Final = 17
_HANDSHAKE_VERSION: Final = 1


def authenticate(connection: BrokerConnection, security: SecuritySettings, nonce: str) -> int:
    """Authenticate; the milliseconds after which the broker wants a new authentication (0: never).

    Raises AuthenticationError, BrokerUnavailableError, or PeerError.
    """
    mechanism = security.sasl_mechanism
    if not connection.speaks(_HANDSHAKE, _HANDSHAKE_VERSION):
        raise AuthenticationError(f"broker {connection.name} does not support SASL: security.protocol must be PLAINTEXT or SSL")
    handshake = connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    code = error_code(handshake.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationError(f"broker {connection.name} does not accept sasl.mechanism={mechanism}: it accepts {offered}")
    if code is not ErrorCode.NONE:
        raise AuthenticationError(f"broker {connection.name} does not accept SASL on this port ({code.name}): check security.protocol")
    if security.tokens is not None:
        return _authenticate_with_token(connection, security.tokens)
    if mechanism == PLAIN:
        return _lifetime_ms(_exchange(connection, security, plain(security.username, security.password)))
    scram = ScramClient(mechanism, security.username, security.password, nonce)
    first = _exchange(connection, security, scram.first())
    last = _exchange(connection, security, scram.final(bytes(first.auth_bytes)))
    if not scram.is_server(bytes(last.auth_bytes)):
        raise AuthenticationError(f"broker {connection.name} could not prove that it knows the password of {security.username}")
    return _lifetime_ms(last)


def _authenticate_with_token(connection: BrokerConnection, tokens: TokenProvider) -> int:
    """The session ends with the token, or earlier where the broker says so."""
    token = tokens.token()
    name = f"the token of {token.principal}" if token.principal else "the token"
    response = _send(connection, initial_response(token))
    if response.auth_bytes:  # why it is refused; the error comes when that is acknowledged
        _send(connection, ACKNOWLEDGEMENT)
        raise AuthenticationError(f"broker {connection.name} refused {name} (OAUTHBEARER): {refusal(bytes(response.auth_bytes))}")
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise AuthenticationError(f"broker {connection.name} refused {name} (OAUTHBEARER): {response.error_message or code.name}")
    lifetime_ms = _lifetime_ms(response)
    token_ms = tokens.lifetime_ms(token)
    return min(lifetime_ms, token_ms) if lifetime_ms else token_ms


def _exchange(connection: BrokerConnection, security: SecuritySettings, message: bytes) -> Any:
    response = _send(connection, message)
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        why = response.error_message or code.name
        raise AuthenticationError(f"broker {connection.name} refused user {security.username} ({security.sasl_mechanism}): {why}")
    return response


def _send(connection: BrokerConnection, message: bytes) -> Any:
    return connection.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)


def _lifetime_ms(response: Any) -> int:
    return int(response.session_lifetime.total_seconds() * 1000)
