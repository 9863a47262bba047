"""One request and the ways to answer it."""

from collections.abc import Callable, Generator, Mapping
from struct import Struct
from typing import Any, Final, TypeVar

from ottla.broker.protocol.response_writing import write_in_pieces
from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.fields import Buffer
from ottla.core.wire.messages import is_flexible, response_encoder

T = TypeVar("T")
_API_VERSIONS: Final = ApiKey.API_VERSIONS.value
# Size, correlation id, and in flexible versions an empty section of tagged fields.
_SIZE_BYTES: Final = 4
_HEAD: Final = Struct(">ii")
_FLEXIBLE_HEAD: Final = Struct(">iix")
SHARED_BYTES_MAX: Final = 1024 * 1024
"""A larger frame has a buffer of its own, which the server does not use again."""


class Request:
    """One request from one connection. Its handler calls `reply`, `reply_body` or `no_reply` exactly once, at once or later.

    `message` is kio's object for the request's version, or None where the API decodes its own body (`Api.decodes_itself`), from `buffer` at
    `body_at`. For a large request, `reading` returns the message before the handler is called. `buffer` is valid only until the handler
    returns: a handler that parks the request keeps what it needs of it, not the buffer. It may set `on_disconnect`, called when the
    connection ends before the response. `fail` closes the connection because of an exception of ours, which would leave the request without
    a response; a handler that continues in a callback of the loop calls it, or uses `guarded`. `held_bytes`: what a handler that parks the
    request has copied of `buffer`, if that is more than a little; it counts as memory of the connection until the response.
    `client_port`: the port that the connection comes from, 0 where there is none (a Unix socket).
    `is_one_way`: the client expects no response, and may close the connection before the request is handled.
    """

    __slots__ = (
        "body_at", "buffer", "client_host", "client_id", "client_port", "correlation_id", "fail", "held_bytes", "is_one_way", "key",
        "message", "on_disconnect", "reading", "send", "version",
    )  # fmt: skip

    def __init__(
        self, *, key: int, version: int, correlation_id: int, client_id: str | None, client_host: str, buffer: memoryview, body_at: int
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client_host = client_host
        self.client_port = 0
        self.buffer = buffer
        self.body_at = body_at
        self.held_bytes = 0
        self.is_one_way = False
        self.message: Any = None
        self.reading: Generator[None, None, Any] | None = None
        self.send: Callable[[list[Buffer]], None] = _nowhere
        self.on_disconnect: Callable[[], None] = nothing
        self.fail: Callable[[Exception], None] = _raise

    def guarded(self, call: Callable[[T], None]) -> Callable[[T], None]:
        """`call`, for the loop to call later: an exception of it closes the connection."""

        def guard(value: T) -> None:
            try:
                call(value)
            except Exception as error:  # noqa: BLE001 - the connection logs it
                self.fail(error)

        return guard

    @property
    def data(self) -> bytes:
        """A copy of all bytes of the request, with its header: bytes objects are faster to read in small parts."""
        return bytes(self.buffer)

    def own_buffer(self) -> memoryview:
        """The request's bytes, valid after the handler has returned."""
        return self.buffer if len(self.buffer) > SHARED_BYTES_MAX else memoryview(bytearray(self.buffer))

    def reply(self, values: Mapping[str, Any]) -> None:
        """Answer with the fields of all versions as nested dicts; those that this version lacks are left out."""
        self.reply_body([response_encoder(self.key, self.version)(values)])

    def reply_in_pieces(self, values: Mapping[str, Any]) -> Generator[None, None, None]:
        """As `reply`, for a response that may be long: work for the scheduler. Arrays may be iterables (`response_writing`)."""
        body = yield from write_in_pieces(self.key, self.version, values)
        self.reply_body(body)

    def reply_body(self, body: list[Buffer]) -> None:
        """Answer with bytes that are encoded already, without joining them."""
        size = 4 + sum(len(part) for part in body)
        flexible_header = self.key != _API_VERSIONS and is_flexible(self.key, self.version)  # ApiVersions: always header v0 (KIP-511)
        head = (size + flexible_header).to_bytes(4, "big") + self.correlation_id.to_bytes(4, "big", signed=True)
        self.send([head + b"\0" if flexible_header else head, *body])

    def reply_bytes(self, body: bytes | bytearray) -> None:
        """As `reply_body`, for a small response in one piece; not for ApiVersions."""
        head = _FLEXIBLE_HEAD if is_flexible(self.key, self.version) else _HEAD
        self.send([head.pack(head.size - _SIZE_BYTES + len(body), self.correlation_id) + body])

    def no_reply(self) -> None:
        """Send nothing (Produce with acks=0): the connection's next request may start."""
        self.send([])


def nothing() -> None:
    """Do nothing: what most requests do when their connection ends."""


def _raise(error: Exception) -> None:
    raise error


def _nowhere(_parts: list[Buffer]) -> None:
    raise AssertionError("a request was answered before it was bound to a connection")
