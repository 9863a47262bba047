"""From a frame to its handler: the request header, the version check, the body. It knows no API but ApiVersions, whose errors differ.

Anything wrong raises PeerError, for which the server closes that connection: Kafka, too, answers such bytes with silence.
"""

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.broker import apis
from ottla.broker.api import Api, Request, nothing
from ottla.broker.messages import API_VERSIONS, is_flexible, request_decoder
from ottla.broker.request_reading import AT_ONCE_BYTES_MAX, Reading, read_in_pieces
from ottla.broker.request_scheduler import Work
from ottla.core.discovery import drop_ins
from ottla.core.errors import PeerError
from ottla.core.wire import Reader

if TYPE_CHECKING:
    from ottla.broker.node import Node


# Key, version, correlation id, length of the client id.
_HEADER = Struct(">hhih")


SERVED_APIS: Final[Mapping[int, Api]] = {api.key: api for api in drop_ins(apis, "API", Api).values()}
"""Every API file's API, by key. Found when the broker's code is loaded: later there may be no file descriptor left to find them with."""


def read_request(frame: memoryview, client_host: str) -> tuple[Api, Request]:
    """The API and the request of a frame (without its size). Raises PeerError."""
    if len(frame) < _HEADER.size:
        raise PeerError(f"{len(frame)} bytes are no request")
    key, version, correlation_id, length = _HEADER.unpack_from(frame)
    client_id, at = _client_id(frame, length) if length >= 0 else _no_client_id(length)
    api = SERVED_APIS.get(key)
    if api is None:
        raise PeerError(f"API {key} is not served")
    request = Request(
        key=key,
        version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        client_host=client_host,
        buffer=frame,
        body_at=at,
    )
    if version not in api.versions or version in api.refused:
        if key != API_VERSIONS:
            raise PeerError(f"API {key} is not served in version {version}")
        return api, request  # its handler answers in version 0 that this version is not known
    if is_flexible(key, version):
        read = Reader(frame, at)
        read.tagged_fields()
        request.body_at = read.at
    if not api.decodes_itself:
        if len(frame) - request.body_at <= AT_ONCE_BYTES_MAX:
            request.message = request_decoder(key, version)(frame, request.body_at)
        else:
            request.reading = read_in_pieces(key, version, request.own_buffer(), request.body_at, api.elements_max)
    return api, request


def _client_id(frame: memoryview, length: int) -> tuple[str, int]:
    end = _HEADER.size + length
    if end > len(frame):
        raise PeerError(f"a client id of {length} bytes in a request of {len(frame)}")
    try:
        return str(frame[_HEADER.size : end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise PeerError("a client id that is not UTF-8") from error


def _no_client_id(length: int) -> tuple[None, int]:
    if length != -1:
        raise PeerError(f"a client id of {length} bytes")
    return None, _HEADER.size


def dispatch(node: "Node", api: Api, request: Request) -> None:
    """Hands a bound request to its handler; a large one when it is decoded, in pieces."""
    if request.reading is None:
        api.handle(node, request)
    else:
        node.cluster.scheduler.run(request, _read_then_handle(node, api, request, request.reading))


def _read_then_handle(node: "Node", api: Api, request: Request, reading: Reading) -> Work:
    request.message = yield from reading
    request.reading = None
    request.gone = nothing
    api.handle(node, request)
