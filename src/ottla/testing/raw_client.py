"""One connection that sends any request in any version and hands back the answer as it was sent: for tests, fuzzing and measuring.

It has no opinions: no retries, no version choice, no hidden requests. Messages are kio's.
"""

import dataclasses
import datetime
import io
import socket
import struct
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

FRAME_BYTES_MAX = 256 * 1024 * 1024


class Disconnected(Exception):
    """The broker closed the connection instead of answering."""


def host_and_port(bootstrap_servers: str) -> tuple[str, int]:
    """The first address of a bootstrap list."""
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    return host, int(port)


def build_request(api_key: int, version: int, values: Mapping[str, Any] | None = None) -> Any:
    """A request from plain values: the same dictionary serves every version of an API.

    Nested parts are dictionaries, lists are lists, durations are milliseconds; names are kio's. What this version does not have is left
    off; what it has and `values` does not is the default, or nothing (0, "", empty, null). A name that no version has is an error.
    """
    unknown = _names_in(values or {}) - _names_in_any_version(api_key)
    assert not unknown, f"no version of {api_key_map[api_key]} has {sorted(unknown)}"
    return _build(load_request_schema(api_key, version), values or {})


def _names_in(values: Any) -> set[str]:
    if isinstance(values, Mapping):
        return set(values) | set().union(*map(_names_in, values.values()))
    if isinstance(values, list):
        return set().union(*map(_names_in, values))
    return set()


@cache
def _names_in_any_version(api_key: int) -> frozenset[str]:
    names: set[str] = set()
    waiting: list[Any] = [load_request_schema(api_key, version) for version in schema_name_map[api_key_map[api_key]]]
    while waiting:
        for field in dataclasses.fields(waiting.pop()):
            names.add(field.name)
            if dataclasses.is_dataclass(inner := _inner(field.type)):
                waiting.append(inner)
    return frozenset(names)


def _build(entity: Any, values: Mapping[str, Any]) -> Any:
    given: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        if field.name in values:
            given[field.name] = _convert(field.type, values[field.name])
        elif field.default is dataclasses.MISSING:
            given[field.name] = _nothing(field.type)
    return entity(**given)


def _convert(wanted: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _build(_inner(wanted), value)
    if isinstance(value, list):
        return tuple(_convert(_inner(wanted), each) for each in value)
    inner = _inner(wanted)
    if isinstance(value, int) and isinstance(inner, type) and issubclass(inner, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    return value


def _inner(wanted: Any) -> Any:
    """X of `X | None`, of `tuple[X, ...]` and of both; any other type is itself."""
    for part in get_args(wanted):
        if part not in (type(None), Ellipsis):
            return _inner(part)
    return wanted


def _nothing(wanted: Any) -> Any:
    if type(None) in get_args(wanted):
        return None
    if get_origin(wanted) is tuple:
        return ()
    if dataclasses.is_dataclass(wanted):
        return _build(wanted, {})
    for kind, value in ((bool, False), (int, 0), (float, 0.0), (str, ""), (bytes, b""), (datetime.timedelta, datetime.timedelta())):
        if issubclass(wanted, kind):
            return value
    raise AssertionError(f"no empty value for {wanted}")


def kio_versions(api_key: int) -> tuple[int, int]:
    """The lowest and highest version of an API that kio has messages for."""
    versions = schema_name_map[api_key_map[api_key]]
    return min(versions), max(versions)


class RawClient:
    """A connection to one broker; `timeout_seconds` holds for connecting and for each answer."""

    def __init__(self, bootstrap_servers: str, *, client_id: str = "ottla-raw", timeout_seconds: float = 10) -> None:
        self.client_id = client_id
        self._correlation_id = 0
        self._socket = socket.create_connection(host_and_port(bootstrap_servers), timeout=timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        """The socket's number: `select.poll` can wait for the answers of many clients."""
        return self._socket.fileno()

    def set_timeout(self, seconds: float) -> None:
        """How long connecting, sending and each answer may take from now on."""
        self._socket.settimeout(seconds)

    def set_receive_buffer(self, size: int) -> None:
        """Have the system keep no more than about so many bytes that were not received here."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """Send one request (a kio request object) and wait for its answer (a kio response object).

        Raises Disconnected when the broker closes the connection, TimeoutError when it says nothing.
        """
        self.send(request)
        return self.receive(request)

    def call(self, api_key: int, version: int, **values: Any) -> Any:
        """`ask` with a request from plain values (see build_request)."""
        return self.ask(build_request(api_key, version, values))

    def send(self, request: Any) -> None:
        """Send one request without waiting."""
        self.send_frame(self.encode(request))

    def encode(self, request: Any) -> bytes:
        """The frame of one request with the next number: `send_frame` sends it, again and again where that is wanted."""
        self._correlation_id += 1
        body = io.BytesIO()
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        entity_writer(type(header))(body, header)
        entity_writer(type(request))(body, request)
        return body.getvalue()

    def receive(self, request: Any) -> Any:
        """Wait for the answer to `request`; answers come in the order of the requests."""
        return self.decode(request, self.receive_frame())

    @staticmethod
    def decode(request: Any, frame: bytes) -> Any:
        """The answer to `request` that a frame holds."""
        response_class: Any = load_response_schema(int(request.__api_key__), int(request.__version__))
        header_class: Any = response_class.__header_schema__
        _, header_bytes = entity_reader(header_class)(frame, 0)
        response, used = entity_reader(response_class)(frame, header_bytes)
        assert header_bytes + used == len(frame), f"{len(frame) - header_bytes - used} bytes after the answer"
        return response

    def send_frame(self, frame: bytes) -> None:
        """Send any bytes as one frame (the size is put before them)."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes as they are."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Disconnected("the connection was closed while sending") from error

    def receive_frame(self) -> bytes:
        """Wait for one frame; its bytes without the size."""
        (size,) = struct.unpack(">i", self.receive_bytes(4))
        assert 0 <= size <= FRAME_BYTES_MAX, f"a frame of {size} bytes"
        return self.receive_bytes(size)

    def receive_bytes(self, count: int) -> bytes:
        """Wait for exactly so many bytes."""
        received = bytearray()
        while len(received) < count:
            received += self.receive_some(count - len(received))
        return bytes(received)

    def receive_some(self, count_max: int) -> bytes:
        """Wait for bytes, at most so many."""
        try:
            part = self._socket.recv(count_max)
        except ConnectionResetError as error:
            raise Disconnected("the connection was reset") from error
        if not part:
            raise Disconnected("the connection was closed before the answer")
        return part
