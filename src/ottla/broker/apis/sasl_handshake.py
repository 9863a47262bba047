"""SaslHandshake (17), v0-1: a client of a SASL listener chooses a mechanism, for the first time or to authenticate again.

Version notes: after v0 tokens come as frames without a header, after v1 in SaslAuthenticate (KIP-152). Never flexible.
"""

from collections.abc import Callable

from ottla.broker.network.request import Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


def handle(request: Request, *, timer_clock: Callable[[], int]) -> None:
    """Answer with the mechanisms of the listener."""
    authentication = request.session.authentication
    if authentication is None:
        request.reply({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []})
        return
    error = authentication.handshake(request.message.mechanism, request.version, timer_clock())
    request.reply({"error_code": error, "mechanisms": list(authentication.mechanisms)})


API = Api(key=ApiKey.SASL_HANDSHAKE, versions=range(2), handle=handle, access=())
