"""One connection that sends any request in any version and hands back the answer as it was sent: for tests, fuzzing and measuring.

It has no opinions: no retries, no version choice, no hidden requests. Messages are kio's.
"""

import io
import socket
import struct
from importlib import import_module
from types import TracebackType
from typing import Any, Self

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


def request_class(api_key: int, version: int) -> Any:
    """kio's request class of this API in this version."""
    return load_request_schema(api_key, version)


def request_parts(request: Any) -> Any:
    """kio's module that holds the nested classes of a request class."""
    return import_module(request.__module__)


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

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """Send one request (a kio request object) and wait for its answer (a kio response object).

        Raises Disconnected when the broker closes the connection, TimeoutError when it says nothing.
        """
        self.send(request)
        return self.receive(request)

    def send(self, request: Any) -> None:
        """Send one request without waiting."""
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
        self.send_frame(body.getvalue())

    def receive(self, request: Any) -> Any:
        """Wait for the answer to `request`; answers come in the order of the requests."""
        response_class: Any = load_response_schema(int(request.__api_key__), int(request.__version__))
        header_class: Any = response_class.__header_schema__
        frame = self.receive_frame()
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
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        assert 0 <= size <= FRAME_BYTES_MAX, f"a frame of {size} bytes"
        return self._receive_exactly(size)

    def _receive_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                part = self._socket.recv(count - len(received))
            except ConnectionResetError as error:
                raise Disconnected("the connection was reset") from error
            if not part:
                raise Disconnected("the connection was closed before the answer")
            received += part
        return bytes(received)
