"""A broker that lies: between a client and a real broker, it changes the answers. It notes requests, and what they commit."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import decoder, encode, is_flexible, request_class, response_class

_HEAD: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">i")
SEND_S_MAX: Final = 30


class Answer(NamedTuple):
    """An honest answer: the head of its frame (correlation id, and tagged fields), and its body."""

    api: ApiKey
    version: int
    head: bytes
    body: bytes

    @property
    def frame(self) -> bytes:
        """All of it, as it is sent."""
        return framed(self.head + self.body)

    @property
    def message(self) -> Any:
        """As kio's object."""
        return decoder(response_class(self.api, self.version))(self.body, 0)

    def with_message(self, message: Any) -> bytes:
        """The frame of another message."""
        return framed(self.head + encode(message))

    def with_body(self, body: bytes) -> bytes:
        """The frame of another body."""
        return framed(self.head + body)


Change = Callable[[Answer], bytes | Iterable[bytes] | None]
"""What is sent for an honest answer: bytes, pieces of bytes with pauses between them, or None to hang up."""


def framed(data: bytes) -> bytes:
    """A frame of these bytes."""
    return _LENGTH.pack(len(data)) + data


class LyingBroker:
    """Listens at `port`, for a real broker at another port of this machine.

    While `lie` is set, it changes the answers to `lie_apis` (None: to all requests). While `is_open` is not set, nothing comes through.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.is_open = threading.Event()
        self.is_open.set()
        self.lie: Change | None = None
        self.lie_apis: frozenset[ApiKey] | None = None
        self.requests: list[tuple[float, ApiKey]] = []
        self.committed: dict[tuple[str, int], int] = {}
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close everything."""
        self._listener.close()
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def requests_between(self, first_s: float, end_s: float) -> int:
        """How many requests came in a time of the clock that never jumps."""
        return sum(first_s <= at < end_s for at, _ in self.requests)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._broker_port)) as broker:
            self._sockets |= {client, broker}
            try:
                client.settimeout(SEND_S_MAX)
                while self._exchange(client, broker):
                    continue
            finally:
                self._sockets -= {client, broker}

    def _exchange(self, client: socket.socket, broker: socket.socket) -> bool:
        request = _receive(client)
        key, version, _ = _HEAD.unpack_from(request)
        api = ApiKey(key)
        self.requests.append((time.monotonic(), api))
        if api is ApiKey.OFFSET_COMMIT:
            self._note_commit(request, version)
        self.is_open.wait()
        broker.sendall(framed(request))
        data = _receive(broker)
        self.is_open.wait()
        head = 5 if api is not ApiKey.API_VERSIONS and is_flexible(key, version) else 4
        answer = Answer(api, version, data[:head], data[head:])
        sent: bytes | Iterable[bytes] | None = answer.frame
        lie = self.lie
        if lie is not None and (self.lie_apis is None or api in self.lie_apis):
            sent = lie(answer)
        if sent is None:
            return False
        for piece in [sent] if isinstance(sent, bytes) else sent:
            client.sendall(piece)
        return True

    def _note_commit(self, request: bytes, version: int) -> None:
        (client_id_bytes,) = struct.unpack_from(">h", request, _HEAD.size)
        at = _HEAD.size + 2 + max(client_id_bytes, 0) + is_flexible(ApiKey.OFFSET_COMMIT, version)  # no tagged fields: one byte
        message = decoder(request_class(ApiKey.OFFSET_COMMIT, version))(request, at)
        for topic in message.topics:
            for each in topic.partitions:
                place = (topic.name, each.partition_index)
                self.committed[place] = max(self.committed.get(place, 0), each.committed_offset)


def _receive(source: socket.socket) -> bytes:
    (size,) = _LENGTH.unpack(_exactly(source, _LENGTH.size))
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise ConnectionError("gone")
        data += piece
    return bytes(data)
