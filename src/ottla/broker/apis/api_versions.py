"""ApiVersions (18), v0-4: which APIs and versions this broker serves.

Version notes: an unsupported version is answered in v0 with UNSUPPORTED_VERSION and the whole list (KIP-511), so that a client can come
down; v3+ names the client's software, which must look like a name. No features are finalised: none of ours depends on one.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import response_encoder
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.node import Node

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: "Node", request: Request) -> None:
    """Answers with the versions of every API file."""
    error = ErrorCode.NONE
    if request.version not in API.versions:
        error = ErrorCode.UNSUPPORTED_VERSION
        request.version = 0
    elif request.version >= 3 and not (
        _SOFTWARE.fullmatch(request.message.client_software_name) and _SOFTWARE.fullmatch(request.message.client_software_version)
    ):
        error = ErrorCode.INVALID_REQUEST
    request.reply_body([_body(request.version, error)])


@cache
def _body(version: int, error: ErrorCode) -> bytes:
    """The answer: the same for every client, and each of them asks for it first."""
    from ottla.broker.dispatch import SERVED_APIS  # the list of all files, this one among them

    keys = [
        {"api_key": api.key, "min_version": api.versions.start, "max_version": api.versions.stop - 1}
        for api in sorted(SERVED_APIS.values(), key=lambda api: api.key)
    ]
    return response_encoder(API.key, version)(
        {
            "error_code": error,
            "api_keys": [] if error is ErrorCode.INVALID_REQUEST else keys,
            "throttle_time": NO_THROTTLE_MS,
            "supported_features": [],
            "finalized_features": [],
        }
    )


API = Api(key=18, versions=range(5), handle=handle)
