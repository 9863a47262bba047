"""What an API file holds: its key, the versions it answers, and the function that does so; and the request that function is given."""

import datetime
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.answer_writing import write_in_pieces
from ottla.broker.messages import API_VERSIONS, is_flexible, response_encoder
from ottla.broker.request_reading import ELEMENTS_MAX
from ottla.core.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.node import Node

T = TypeVar("T")
NO_THROTTLE_MS = 0
# Size, correlation id, and in flexible versions an empty section of tagged fields.
_SIZE_BYTES = 4
_HEAD = Struct(">ii")
_FLEXIBLE_HEAD = Struct(">iix")
SHARED_BYTES_MAX = 1024 * 1024
"""A larger frame has a buffer of its own, which the server does not use again."""
OPERATIONS_NOT_ASKED_FOR = -(2**31)


def milliseconds(duration: datetime.timedelta) -> int:
    """A duration of kio's as a whole number of milliseconds."""
    return duration // datetime.timedelta(milliseconds=1)


class Request:
    """One request from one connection. Its handler calls `reply`, `reply_body` or `no_reply` exactly once, at once or later.

    `message` is kio's object for the request's version, or None where the API decodes its own body (`Api.decodes_itself`), from `buffer` at
    `body_at`; of a large request it is what `reading` ends with, before the handler is called. `buffer` is only valid until the handler
    returns: a handler that parks the request keeps what it needs of it, not the buffer, and may set `gone`, which is called when the
    connection ends before the answer. `fail` ends the connection for an exception of ours, which would leave the request without an answer;
    a handler that continues in a callback of the loop calls it, or uses `guarded`. `held_bytes`: what a handler that parks the request has
    copied of `buffer`, where it is more than a little; it counts as memory of the connection until the answer.
    `is_one_way`: the client expects no answer, and may close the connection before the request is handled.
    """

    __slots__ = (
        "body_at", "buffer", "client_host", "client_id", "correlation_id", "fail", "gone", "held_bytes", "is_one_way", "key", "message",
        "reading", "send", "version",
    )  # fmt: skip

    def __init__(
        self, *, key: int, version: int, correlation_id: int, client_id: str | None, client_host: str, buffer: memoryview, body_at: int
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client_host = client_host
        self.buffer = buffer
        self.body_at = body_at
        self.held_bytes = 0
        self.is_one_way = False
        self.message: Any = None
        self.reading: Generator[None, None, Any] | None = None
        self.send: Callable[[list[Buffer]], None] = _nowhere
        self.gone: Callable[[], None] = nothing
        self.fail: Callable[[Exception], None] = _raise

    def guarded(self, call: Callable[[T], None]) -> Callable[[T], None]:
        """`call`, for the loop to call later: what it raises ends the connection."""

        def guard(value: T) -> None:
            try:
                call(value)
            except Exception as error:  # noqa: BLE001 - the connection says it in the log
                self.fail(error)

        return guard

    @property
    def data(self) -> bytes:
        """All bytes of the request, header and all: a copy, for who reads small things one by one."""
        return bytes(self.buffer)

    def own_buffer(self) -> memoryview:
        """The request's bytes, for a handler that needs them after it has returned."""
        return self.buffer if len(self.buffer) > SHARED_BYTES_MAX else memoryview(bytearray(self.buffer))

    def reply(self, values: Mapping[str, Any]) -> None:
        """Answers with the fields of all versions as nested dicts; those that this version lacks are left out."""
        self.reply_body([response_encoder(self.key, self.version)(values)])

    def reply_in_pieces(self, values: Mapping[str, Any]) -> Generator[None, None, None]:
        """As `reply`, for an answer that may be long: work for the scheduler. Arrays may be iterables (`answer_writing`)."""
        body = yield from write_in_pieces(self.key, self.version, values)
        self.reply_body(body)

    def reply_body(self, body: list[Buffer]) -> None:
        """Answers with bytes that are encoded already, without copying them together."""
        size = 4 + sum(len(part) for part in body)
        flexible_header = self.key != API_VERSIONS and is_flexible(self.key, self.version)  # ApiVersions: header v0 for ever (KIP-511)
        head = (size + flexible_header).to_bytes(4, "big") + self.correlation_id.to_bytes(4, "big", signed=True)
        self.send([head + b"\0" if flexible_header else head, *body])

    def reply_bytes(self, body: bytes | bytearray) -> None:
        """As `reply_body`, for an answer that is small, in one piece, and none of ApiVersions."""
        head = _FLEXIBLE_HEAD if is_flexible(self.key, self.version) else _HEAD
        self.send([head.pack(head.size - _SIZE_BYTES + len(body), self.correlation_id) + body])

    def no_reply(self) -> None:
        """Nothing is sent (Produce with acks=0): the connection's next request may go on."""
        self.send([])


def nothing() -> None:
    """What is done for most requests whose connection is gone."""


def _raise(error: Exception) -> None:
    raise error


def _nowhere(_parts: list[Buffer]) -> None:
    raise AssertionError("a request was answered before it was bound to a connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One Kafka API. `versions` is what ApiVersions advertises; `refused` lists those of them that close the connection all the same.

    A request has at most `elements_max` elements in all its arrays (`request_reading`).
    """

    key: int
    versions: range
    handle: "Callable[[Node, Request], None]"
    decodes_itself: bool = False
    refused: range = range(0)
    elements_max: int = ELEMENTS_MAX
