"""From a frame to its handler: the request header, the version check, the body. It knows no API but ApiVersions, whose errors differ.

Anything wrong raises PeerError, for which the server closes that connection: Kafka does not answer such bytes either.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct

from ottla.broker.network.request_scheduler import RequestScheduler, Work
from ottla.broker.protocol.api import ServedApi
from ottla.broker.protocol.request import Request, nothing
from ottla.broker.protocol.request_reading import AT_ONCE_BYTES_MAX, Reading, read_in_pieces
from ottla.core.errors import PeerError
from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.messages import is_flexible, request_decoder
from ottla.core.wire.reader import Reader

# Key, version, correlation id, length of the client id.
_HEADER = Struct(">hhih")


class Dispatcher:
    """The requests of one broker. `apis` by key, each with its collaborators; `scheduler` decodes large requests step by step."""

    __slots__ = ("_apis", "_scheduler", "_served")

    def __init__(self, apis: Mapping[int, ServedApi], scheduler: RequestScheduler) -> None:
        self._apis = apis
        self._scheduler = scheduler
        self._served = lru_cache(maxsize=1024)(self._find)

    def read_request(self, frame: memoryview, client_host: str) -> tuple[ServedApi, Request]:
        """The API and the request of a frame (without its size). Raises PeerError."""
        if len(frame) < _HEADER.size:
            raise PeerError(f"{len(frame)} bytes are no request")
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        client_id, at = _client_id(frame, length) if length >= 0 else _no_client_id(length)
        api, is_served, has_tags = self._served(key, version)
        request = Request(
            key=key,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            client_host=client_host,
            buffer=frame,
            body_at=at,
        )
        if not is_served:
            return api, request  # its handler answers in version 0 that this version is not supported
        if has_tags:
            read = Reader(frame, at, True)
            read.skip_tagged_fields()
            request.body_at = read.at
        if not api.decodes_itself:
            if len(frame) - request.body_at <= AT_ONCE_BYTES_MAX:
                request.message = request_decoder(key, version)(frame, request.body_at)
            else:
                request.reading = read_in_pieces(key, version, request.own_buffer(), request.body_at, api.elements_max)
        return api, request

    def dispatch(self, api: ServedApi, request: Request) -> None:
        """Pass a request to its handler; a large one after it is decoded step by step."""
        if request.reading is None:
            api.handle(request)
        else:
            self._scheduler.run(request, _read_then_handle(api, request, request.reading))

    def _find(self, key: int, version: int) -> tuple[ServedApi, bool, bool]:
        """The API of a request, whether it is served in this version, and whether the header ends with tagged fields. Raises PeerError."""
        api = self._apis.get(key)
        if api is None:
            raise PeerError(f"API {key} is not served")
        if version in api.versions and version not in api.refused:
            return api, True, is_flexible(key, version)
        if key != ApiKey.API_VERSIONS:
            raise PeerError(f"API {key} is not served in version {version}")
        return api, False, False


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


def _read_then_handle(api: ServedApi, request: Request, reading: Reading) -> Work:
    request.message = yield from reading
    request.reading = None
    request.on_disconnect = nothing
    api.handle(request)
