"""SaslAuthenticate (36), v0-2: one token of a SASL exchange, and the mechanism's answer to it (KIP-152).

Version notes: v1+ says how long the session lasts (KIP-368); v2 is flexible.
"""

from collections.abc import Callable

from ottla.broker.network.request import Api, Request
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.api_keys import ApiKey


def handle(request: Request, *, timer_clock: Callable[[], int], clock: Callable[[], int]) -> None:
    """Answer as the mechanism does. Raises PeerError where the connection is closed without an answer."""
    authentication = request.session.authentication
    if authentication is None:
        message = "SaslAuthenticate request received on a listener without SASL"
        request.reply({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": message, "auth_bytes": b"", "session_lifetime": 0})
        return
    answer = authentication.authenticate(bytes(request.message.auth_bytes), timer_clock(), clock())
    if answer is None:
        raise PeerError(authentication.cause)
    request.reply(
        {
            "error_code": answer.error,
            "error_message": answer.message,
            "auth_bytes": answer.token,
            "session_lifetime": answer.lifetime_ms,
        }
    )


API = Api(key=ApiKey.SASL_AUTHENTICATE, versions=range(3), handle=handle, access=())
