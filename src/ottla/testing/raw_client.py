"""One connection that sends any request in any version and hands back the response as it was sent: for tests, fuzzing and measuring.

No retries, no version choice, no hidden requests. Messages are kio's. Topics are created and deleted with it, on any broker.
"""

import dataclasses
import socket
import struct
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self

from kio.schema.index import api_key_map

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.bounds import nested_entity, walker
from ottla.protocol.wire.messages import decoder, encode, fitter, request_class, response_class, versions_of
from ottla.protocol.wire.primitives import Reader, Writer

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
    return fitter(request_class(api_key, version), True)(values or {})


def _names_in(values: Any) -> set[str]:
    if isinstance(values, Mapping):
        return set(values) | set().union(*map(_names_in, values.values()))
    if isinstance(values, list):
        return set().union(*map(_names_in, values))
    return set()


@cache
def _names_in_any_version(api_key: int) -> frozenset[str]:
    names: set[str] = set()
    waiting: list[Any] = [request_class(api_key, version) for version in versions_of(api_key)]
    while waiting:
        for field in dataclasses.fields(waiting.pop()):
            names.add(field.name)
            if (nested := nested_entity(field)) is not None:
                waiting.append(nested)
    return frozenset(names)


class RawClient:
    """A connection to one broker, by its `socket`; `timeout_seconds` holds for connecting and for each response."""

    def __init__(self, bootstrap_servers: str, *, client_id: str = "ottla-raw", timeout_seconds: float = 60) -> None:
        self.client_id = client_id
        self._correlation_id = 0
        self.socket = socket.create_connection(host_and_port(bootstrap_servers), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        """The socket's number: `select.poll` can wait for the responses of many clients."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, request: Any) -> Any:
        """Send one request (a kio request object) and wait for its response (a kio response object).

        Raises Disconnected when the broker closes the connection, TimeoutError without a response.
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
        header = Writer().int16(request.__api_key__).int16(request.__version__).int32(self._correlation_id).string(self.client_id)
        if request.__flexible__:
            header.uvarint(0)
        return header.to_bytes() + encode(request)

    def receive(self, request: Any) -> Any:
        """Wait for the response to `request`; responses come in the order of the requests."""
        return self.decode(request, self.receive_frame())

    @staticmethod
    def decode(request: Any, frame: bytes) -> Any:
        """The response to `request` that a frame holds."""
        entity = response_class(request.__api_key__, request.__version__)
        reader = Reader(frame, flexible=entity.__header_schema__.__flexible__)
        reader.int32()
        reader.skip_tagged_fields()
        response = decoder(entity)(frame, reader.at)
        left = len(frame) - walker(entity)(frame, reader.at, len(frame))
        assert left == 0, f"{left} bytes after the response"
        return response

    def send_frame(self, frame: bytes) -> None:
        """Send any bytes as one frame (the size is put before them)."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes as they are."""
        try:
            self.socket.sendall(data)
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
            part = self.socket.recv(count_max)
        except ConnectionResetError as error:
            raise Disconnected("the connection was reset") from error
        if not part:
            raise Disconnected("the connection was closed before the response")
        return part


def create_topic(broker: RawClient | str, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> Any:
    """Create a topic, at a client's broker or at these bootstrap servers; return its id.

    The names of settings have "_" for ".". Raises AssertionError with the broker's error message.
    """
    if isinstance(broker, str):
        with RawClient(broker) as client:
            return create_topic(client, name, partitions, replicas=replicas, **configs)
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": settings}
    (created,) = broker.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=60_000).topics
    if created.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {name} was not created: {ErrorCode(created.error_code).name}: {created.error_message}")
    return created.topic_id


def delete_topic(bootstrap_servers: str, name: str) -> None:
    """Delete a topic. Raises AssertionError with the broker's error."""
    with RawClient(bootstrap_servers) as client:
        topic = {"name": name, "topic_id": None}
        (deleted,) = client.call(ApiKey.DELETE_TOPICS, 6, topics=[topic], timeout=60_000).responses
    if deleted.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {name} was not deleted: {ErrorCode(deleted.error_code).name}: {deleted.error_message}")
