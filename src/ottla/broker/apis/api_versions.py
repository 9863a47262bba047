"""ApiVersions (18), v0-4: the APIs and versions that this broker serves.

Version notes: an unsupported version is answered in v0 with UNSUPPORTED_VERSION and the whole list (KIP-511), so that a client can fall
back; v3+ carries the client's software name and version, which are validated. No features are finalised: no API here depends on one.
"""

import re
from functools import cache

from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import response_encoder

ServedVersions = tuple[int, int, int]
"""Key, lowest and highest version of an API."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, *, served_versions: tuple[ServedVersions, ...]) -> None:
    """Answer with the versions of every API file."""
    error = ErrorCode.NONE
    if request.version not in API.versions:
        error = ErrorCode.UNSUPPORTED_VERSION
        request.version = 0
    elif request.version >= 3:
        name, version = request.message.client_software_name, request.message.client_software_version
        if _SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version):
            request.session.software_name, request.session.software_version = name, version
        else:
            error = ErrorCode.INVALID_REQUEST
    request.reply_body([_body(request.version, error, served_versions)])


@cache
def _body(version: int, error: ErrorCode, served_versions: tuple[ServedVersions, ...]) -> bytes:
    """The response: the same for every client, and each of them asks for it first."""
    keys = [{"api_key": key, "min_version": lowest, "max_version": highest} for key, lowest, highest in served_versions]
    return response_encoder(API.key, version)(
        {
            "error_code": error,
            "api_keys": [] if error is ErrorCode.INVALID_REQUEST else keys,
            "throttle_time": NO_THROTTLE_MS,
            "supported_features": [],
            "finalized_features": [],
        }
    )


API = Api(key=ApiKey.API_VERSIONS, versions=range(5), handle=handle, access=())
