"""One request, the session that it belongs to, the ways to answer it, and what an API file declares.

A session is created with its connection. Each request refers to it, so that handlers find there what is not in the request: the client's
address and software, its principal, where it finds brokers, and whether it may use a resource. The client id is in each request's own
header. What counts by client, such as quotas, belongs to the session.

An API file's `handle` is a function `handle(request, *, groups, scheduler, ...)`: its keyword-only parameters name the collaborators that
it uses. Where a request has many collaborators, or lives longer than one call, `handle` is a class that takes the collaborators by keyword
and has a method `handle(request)`.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from struct import Struct
from types import FunctionType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible, response_encoder
from ottla.protocol.wire.primitives import Buffer
from ottla.protocol.wire.request_reading import ELEMENTS_MAX
from ottla.protocol.wire.response_writing import write_in_pieces
from ottla.security.access import ANONYMOUS, CLUSTER_NAME, OPERATIONS, Operation, Principal, Resource, ResourceType
from ottla.security.authentication import Authentication

T = TypeVar("T")
_API_VERSIONS: Final = ApiKey.API_VERSIONS.value
# Size, correlation id, and in flexible versions an empty section of tagged fields.
_SIZE_BYTES: Final = 4
_HEAD: Final = Struct(">ii")
_FLEXIBLE_HEAD: Final = Struct(">iix")
SHARED_BYTES_MAX: Final = 1024 * 1024
"""A larger frame has a buffer of its own, which the server does not use again."""


class Endpoint(NamedTuple):
    """A broker, and where clients of one listener find it."""

    node_id: int
    host: str
    port: int


class Authorizer(Protocol):
    """Decides what sessions may do."""

    def authorize(self, session: "Session", operation: Operation, kind: ResourceType, name: str, log_if_denied: bool = True) -> bool:
        """Whether the session's principal may do this. Nothing is logged where a denial only leaves something out of a list."""
        ...

    def authorize_any(self, session: "Session", operation: Operation, kind: ResourceType) -> bool:
        """Whether the session's principal may do this with at least one resource of a type."""
        ...

    def authorized_operations(self, session: "Session", resource: Resource) -> int:
        """What the session's principal may do with a resource, as a bit field."""
        ...


class Session:
    """One connection as its requests' handlers see it.

    `listener` is the name of the listener; `endpoint` gives the address of a broker on it, by id: None where it has none there. Without
    an `authorizer` everything is allowed. `client_host` and `client_port` are where the connection comes from, as Kafka prints it, `/` and
    0 where that is not known; `host` is the same without the slash, as ACLs name it. `api_key` is the API of the request that is being
    handled, for audit lines. `software_name` and `software_version` are empty until the client has sent them with ApiVersions.
    `authentication` is None on listeners without SASL.
    """

    __slots__ = (
        "address", "api_key", "authentication", "authorizer", "client_host", "client_port", "endpoint", "host", "listener", "principal",
        "software_name", "software_version",
    )  # fmt: skip

    def __init__(
        self,
        listener: str,
        endpoint: Callable[[int], Endpoint | None],
        peer: tuple[str, int] | None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.authorizer = authorizer
        self.address, self.client_port = peer[:2] if peer else ("", 0)
        self.client_host = java_address(self.address) if peer else "/"
        self.host = self.client_host[1:]
        self.api_key = -1
        self.principal: Principal = ANONYMOUS
        self.authentication: Authentication | None = None
        self.software_name = self.software_version = ""

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME, *, log_if_denied: bool = True) -> bool:
        """Whether the client may do this. Nothing is logged where a denial only leaves something out of a list."""
        return self.authorizer is None or self.authorizer.authorize(self, operation, kind, name, log_if_denied)

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do this with at least one resource of a type."""
        return self.authorizer is None or self.authorizer.authorize_any(self, operation, kind)

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What the client may do with a resource, as a bit field."""
        return OPERATIONS[kind] if self.authorizer is None else self.authorizer.authorized_operations(self, Resource(kind, name))

    def cluster_operations(self) -> int:
        """What the client may do with the cluster; nothing, unless it may describe it."""
        return self.operations(ResourceType.CLUSTER) if self.may(Operation.DESCRIBE, ResourceType.CLUSTER) else 0


def java_address(address: str) -> str:
    """An address as Java prints an InetAddress, which is how Kafka shows a member's host: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`."""
    parsed = ip_address(address)
    if parsed.version == 4:
        return f"/{address}"
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    words = ":".join(f"{int.from_bytes(parsed.packed[at : at + 2]):x}" for at in range(0, 16, 2))
    return f"/{words}%{parsed.scope_id}" if parsed.scope_id else f"/{words}"


class Request:
    """One request from one connection. Its handler calls `reply`, `reply_body` or `no_reply` exactly once, at once or later.

    `message` is kio's object for the request's version, or None where the API decodes its own body (`Api.decodes_itself`), from `buffer` at
    `body_at`. For a large request, `reading` returns the message before the handler is called. `buffer` is valid only until the handler
    returns: a handler that parks the request keeps what it needs of it, not the buffer. It may set `on_disconnect`, called when the
    connection ends before the response. `fail` closes the connection because of an exception of ours, which would leave the request without
    a response; a handler that continues in a callback of the loop calls it, or uses `guarded`. `held_bytes`: what a handler that parks the
    request has copied of `buffer`, if that is more than a little; it counts as memory of the connection until the response.
    `amend` completes the fields of a response in pieces: with what was refused before the handler was called (`dispatch.checked`).
    `throttle_ms`: for so long the connection's next request waits after the response (`throttling`).
    `is_one_way`: the client expects no response, and may close the connection before the request is handled.
    """

    __slots__ = (
        "amend", "body_at", "buffer", "client_id", "correlation_id", "fail", "held_bytes", "is_one_way", "key",
        "message", "on_disconnect", "reading", "send", "session", "throttle_ms", "version",
    )  # fmt: skip

    def __init__(
        self, *, key: int, version: int, correlation_id: int, client_id: str | None, session: Session, buffer: memoryview, body_at: int
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.session = session
        self.buffer = buffer
        self.body_at = body_at
        self.amend: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
        self.held_bytes = 0
        self.is_one_way = False
        self.throttle_ms = 0
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
        if self.amend is not None:
            values = self.amend(values)
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


Handler = Callable[[Request], None]


Refuse = Callable[[Any, ErrorCode], Any]


@dataclass(frozen=True, slots=True)
class Access:
    """A right that an API needs: `operation` on the resources of a type that its requests name.

    `at` is where their names are: "" for the cluster, "group_id" for a field, "topics[].name" for a field of an array's items, "groups[]"
    for an array of names. `refuse` says how a request is answered that has not this right: for a field, and for the cluster, it answers the
    request; for items, which `dispatch.checked` takes out of the request, it gives the response's item, for the array `answers`. Without
    it, the handler itself asks `Session.may`: hot APIs, those that also show what is not named, and those whose names must be looked up.
    `where` limits items to those with a value in a field; `or_cluster` is an operation on the cluster that will do as well, `or_any` one on
    whatever resource of a type.
    """

    operation: Operation
    resource: ResourceType
    at: str = ""
    refuse: Refuse | None = None
    answers: str = ""
    where: tuple[str, int] | None = None
    or_cluster: Operation | None = None
    or_any: tuple[Operation, ResourceType] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """An API that one broker serves: `handle` has its collaborators."""

    key: int
    versions: range
    handle: Handler
    decodes_itself: bool
    refused: range
    elements_max: int
    access: tuple[Access, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One Kafka API. `versions` is what ApiVersions advertises; `refused` lists those of them that close the connection all the same.

    `access`: the rights that it needs, all of them. A request has at most `elements_max` elements in all its arrays (`request_reading`).
    """

    key: int
    versions: range
    handle: Callable[..., Any]
    access: tuple[Access, ...]
    decodes_itself: bool = False
    refused: range = range(0)
    elements_max: int = ELEMENTS_MAX

    def bind(self, collaborators: Mapping[str, object]) -> ServedApi:
        """The API with its handler's collaborators, found by name. Raises LookupError for a name that `collaborators` lacks."""
        return ServedApi(
            key=self.key,
            versions=self.versions,
            handle=_bind(self.handle, collaborators),
            decodes_itself=self.decodes_itself,
            refused=self.refused,
            elements_max=self.elements_max,
            access=self.access,
        )


@cache
def _collaborators(handle: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a handler's keyword-only parameters. The same for each of the brokers that a suite of tests starts."""
    return tuple(value.name for value in inspect.signature(handle).parameters.values() if value.kind is value.KEYWORD_ONLY)


def _bind(handle: Callable[..., Any], collaborators: Mapping[str, object]) -> Handler:
    names = _collaborators(handle)
    missing = [name for name in names if name not in collaborators]
    if missing:
        raise LookupError(f"{handle.__module__} needs {', '.join(missing)}; the collaborators are {', '.join(sorted(collaborators))}")
    used = {name: collaborators[name] for name in names}
    if isinstance(handle, type):
        bound: Handler = handle(**used).handle
        return bound
    assert isinstance(handle, FunctionType)
    # A copy of the function whose keyword-only parameters have the collaborators as defaults: called as fast as the function itself,
    # where functools.partial costs 0.1 us more for each request.
    copy = FunctionType(handle.__code__, handle.__globals__, handle.__name__, handle.__defaults__, handle.__closure__)
    copy.__kwdefaults__ = used
    return copy


NO_THROTTLE_MS: Final = 0
