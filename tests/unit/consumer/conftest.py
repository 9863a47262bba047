"""A broker made of canned bytes: a socket that answers each request frame with what the test says."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

API_VERSIONS_3 = 18
SPOKEN = {1: (4, 18), 2: (1, 11), 3: (0, 13), 18: (0, 4)}


def _versions_body(spoken: dict[int, tuple[int, int]]) -> bytes:
    items = b"".join(struct.pack(">hhh", key, low, high) + b"\x00" for key, (low, high) in spoken.items())
    return struct.pack(">h", 0) + bytes([len(spoken) + 1]) + items + struct.pack(">i", 0) + b"\x00"


class CannedBroker:
    """`answer(api_key, correlation_id)` gives the bytes to send, b"" to say nothing, None to hang up."""

    def __init__(self, answer: Callable[[int, int], bytes | None]) -> None:
        self._answer = answer
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()
        self._thread.join(timeout=5)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        try:
            while True:
                head = self._exactly(connection, 4)
                frame = self._exactly(connection, struct.unpack(">i", head)[0])
                self.requests.append(frame)
                api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
                answer = self._answer(api_key, correlation_id)
                if answer is None:
                    return
                connection.sendall(answer)
        except OSError:
            return

    @staticmethod
    def _exactly(connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = connection.recv(size - len(data))
            if not piece:
                raise ConnectionError("gone")
            data += piece
        return data


def _frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


@pytest.fixture
def frame() -> Callable[[int, bytes], bytes]:
    """An answer's bytes from its correlation id and what follows it."""
    return _frame


@pytest.fixture
def canned_broker() -> Iterator[Callable[..., CannedBroker]]:
    """`canned_broker(answer, spoken=...)`: ApiVersions is answered for the test, everything else by `answer(api_key, correlation_id)`."""
    made: list[CannedBroker] = []

    def make(answer: Callable[[int, int], bytes | None], *, versions_body: bytes | None = None) -> CannedBroker:
        body = _versions_body(SPOKEN) if versions_body is None else versions_body

        def reply(api_key: int, correlation_id: int) -> bytes | None:
            return _frame(correlation_id, body) if api_key == API_VERSIONS_3 else answer(api_key, correlation_id)

        made.append(CannedBroker(reply))
        return made[-1]

    yield make
    for broker in made:
        broker.close()
