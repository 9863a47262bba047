"""From a frame to its handler: the request header, the version check, the body. It knows no API but ApiVersions, whose errors differ.

Anything wrong raises PeerError, for which the server closes that connection: Kafka does not answer such bytes either. A request that is too
large is answered where its response has an error for it (`refusals`). What clients ask for and Ottla does not have yet is logged
(`MissingFeatures`), as few clients show a response's text.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from struct import Struct
from typing import Final

from ottla.broker.network.access_checks import checked
from ottla.broker.network.refusals import refuse
from ottla.broker.network.request import Handler, Request, ServedApi, Session, nothing
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.broker.network.throttling import Throttling
from ottla.protocol.errors import PeerError, RequestTooLarge
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible, request_decoder
from ottla.protocol.wire.primitives import Reader
from ottla.protocol.wire.request_reading import AT_ONCE_BYTES_MAX, Reading, read_in_pieces
from ottla.text import printable

# Key, version, correlation id, length of the client id.
_HEADER = Struct(">hhih")


class NotServed(PeerError):
    """The peer sent a request of an API, or of a version of one, that is not served; its client is named in the log already."""


class Dispatcher:
    """The requests of one broker. `apis` by key, each with its collaborators; `scheduler` decodes large requests step by step.

    With `is_checked`, the rights of each API are checked before its handler is called; without, as where everything is allowed, nothing of
    that costs time.
    """

    __slots__ = ("_apis", "_missing_features", "_scheduler", "_served", "_throttling")

    def __init__(
        self,
        apis: Mapping[int, ServedApi],
        scheduler: RequestScheduler,
        missing_features: "MissingFeatures",
        *,
        is_checked: bool = False,
        throttling: Throttling | None = None,
    ) -> None:
        self._apis = {key: replace(api, handle=checked(api)) for key, api in apis.items()} if is_checked else apis
        self._missing_features = missing_features
        self._throttling = throttling
        self._scheduler = scheduler
        self._served = lru_cache(maxsize=1024)(self._find)

    def read_request(self, frame: memoryview, session: Session) -> tuple[ServedApi, Request]:
        """The API and the request of a frame (without its size). Raises PeerError."""
        if len(frame) < _HEADER.size:
            raise PeerError(f"{len(frame)} bytes are no request")
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        client_id, at = _client_id(frame, length) if length >= 0 else _no_client_id(length)
        try:
            api, is_served, has_tags = self._served(key, version)
        except NotServed as missing:
            self._missing_features.report(str(missing), client_id, session)
            raise
        request = Request(
            key=key,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            session=session,
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
                request.buffer = request.own_buffer()
                request.reading = read_in_pieces(key, version, request.buffer, request.body_at, api.elements_max)
        return api, request

    def dispatch(self, api: ServedApi, request: Request) -> None:
        """Pass a request to its handler; a large one after it is decoded step by step."""
        request.session.api_key = request.key
        if request.reading is None:
            try:
                if self._throttling is not None and self._throttling.is_active:
                    self._throttling.handle(request, api.handle)
                else:
                    api.handle(request)
            except RequestTooLarge as error:
                self._scheduler.run(request, refuse(request, request.own_buffer(), error))
        else:
            handle = api.handle
            if self._throttling is not None and self._throttling.is_active:
                handle = partial(self._throttling.handle, handler=handle)
            self._scheduler.run(request, _read_then_handle(handle, request, request.reading, request.buffer))

    def _find(self, key: int, version: int) -> tuple[ServedApi, bool, bool]:
        """The API of a request, whether it is served in this version, and whether the header ends with tagged fields. Raises NotServed."""
        api = self._apis.get(key)
        if api is None:
            raise NotServed(f"{_api_name(key)}, which is not served: its connection is closed")
        if version in api.versions and version not in api.refused:
            return api, True, is_flexible(key, version)
        if key != ApiKey.API_VERSIONS:
            served = [each for each in api.versions if each not in api.refused]
            raise NotServed(
                f"version {version} of {_api_name(key)}, which is served in versions {served[0]} to {served[-1]}: its connection is closed"
            )
        return api, False, False


def _api_name(key: int) -> str:
    return next((api.name for api in ApiKey if api == key), f"API {key}")


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


def _read_then_handle(handle: Handler, request: Request, reading: Reading, buffer: memoryview) -> Work:
    try:
        request.message = yield from reading
    except RequestTooLarge as error:
        yield from refuse(request, buffer, error)
        return
    finally:
        request.reading = None
        request.on_disconnect = nothing
    handle(request)


log = logging.getLogger(__name__)

REPEATED_AFTER_S: Final = 600.0
KEPT_MAX: Final = 1000
SHOWN_CHARACTERS_MAX: Final = 100


class MissingFeatures:
    """Logs one line for a client id and a feature in ten minutes, and at most 1,000 lines in that time."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._logged_at_s: dict[tuple[str, str], float] = {}

    def report(self, feature: str, client_id: str | None, session: Session) -> None:
        """A client requests `feature`."""
        client_id = (client_id or "")[:SHOWN_CHARACTERS_MAX]
        now_s = self._clock_s()
        # Every entry is added once and stays ten minutes: the oldest come first.
        while self._logged_at_s and now_s - next(iter(self._logged_at_s.values())) >= REPEATED_AFTER_S:
            del self._logged_at_s[next(iter(self._logged_at_s))]
        if (client_id, feature) in self._logged_at_s or len(self._logged_at_s) >= KEPT_MAX:
            return
        self._logged_at_s[client_id, feature] = now_s
        log.warning("client %s of %s asks for %s", printable(client_id) or "(no id)", session.client_host, feature)
