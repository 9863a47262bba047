"""Scripted brokers: one with a socket, whose responses are bytes, and one without, whose responses are values of kio's messages."""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from ottla.client.addresses import Address
from ottla.client.brokers import Brokers
from ottla.client.errors import BrokerUnavailableError, UnsupportedBrokerError
from ottla.client.settings import ClientSettings
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import fitter

STATM = Path("/proc/self/statm")
API_VERSIONS = {ApiKey.FETCH: (4, 18), ApiKey.LIST_OFFSETS: (1, 11), ApiKey.METADATA: (0, 13), ApiKey.API_VERSIONS: (0, 4)}


def _versions_body(api_versions: Mapping[int, tuple[int, int]]) -> bytes:
    items = b"".join(struct.pack(">hhh", key, low, high) + b"\x00" for key, (low, high) in api_versions.items())
    return struct.pack(">h", 0) + bytes([len(api_versions) + 1]) + items + struct.pack(">i", 0) + b"\x00"


class CannedBroker:
    """`answer(api_key, correlation_id)` gives the bytes to send, b"" for no response, None to hang up; or several pieces of bytes."""

    def __init__(self, answer: Callable[[int, int], bytes | Iterable[bytes] | None], tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
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
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
        except OSError:
            return

    @staticmethod
    def _exactly(connection: socket.socket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = connection.recv(size - len(data))
            if not piece:
                raise ConnectionError("gone")
            data += piece
        return bytes(data)


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def resident_bytes() -> Callable[[], int]:
    """The memory that this process uses now, as the operating system counts it: what is reserved and never written to does not count."""
    if not STATM.exists():
        pytest.skip("only Linux says how much memory is resident")
    return _resident_bytes


def _frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


@pytest.fixture
def frame() -> Callable[[int, bytes], bytes]:
    """The bytes of a response from its correlation id and body."""
    return _frame


@pytest.fixture
def canned_broker() -> Iterator[Callable[..., CannedBroker]]:
    """`canned_broker(answer)`: the fixture answers ApiVersions itself, `answer(api_key, correlation_id)` everything else."""
    made: list[CannedBroker] = []

    def make(
        answer: Callable[[int, int], bytes | Iterable[bytes] | None],
        *,
        versions_body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> CannedBroker:
        body = _versions_body(API_VERSIONS) if versions_body is None else versions_body

        def reply(api_key: int, correlation_id: int) -> bytes | Iterable[bytes] | None:
            return _frame(correlation_id, body) if api_key == ApiKey.API_VERSIONS else answer(api_key, correlation_id)

        made.append(CannedBroker(reply, tls))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


class ScriptedConnection:
    """`answer(api_key, request)` gives the values of the response, or raises."""

    def __init__(self, place: str, answer: Callable[[int, Any], Any], api_versions: dict[int, range]) -> None:
        self.name = place
        self.timeout_ms = 0
        self.is_closed = False
        self.is_hung_up = False
        self._answer = answer
        self._spoken = api_versions

    def speaks(self, api_key: int, version: int) -> bool:
        return version in self._spoken.get(api_key, range(100))

    def call(self, request: Any, response_class: type[Any]) -> Any:
        if not self.speaks(request.__api_key__, request.__version__):
            raise UnsupportedBrokerError("too old")
        return fitter(response_class)({"throttle_time": 0} | self._answer(int(request.__api_key__), request))

    def is_stale(self, idle_ms_max: int) -> bool:
        return self.is_hung_up

    def close(self) -> None:
        self.is_closed = True


class ScriptedBrokers:
    """Brokers by "host:port"; other addresses are unreachable. `waits` are the pauses, in seconds."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[int, Any], Any]] = {}
        self.api_versions: dict[int, range] = {ApiKey.CONSUMER_GROUP_DESCRIBE: range(0)}
        self.now = 0.0
        self.waits: list[float] = []
        self.connected: list[str] = []
        self.asked: list[tuple[str, int]] = []

    def broker(self, place: str, answer: Callable[[int, Any], Any]) -> Self:
        self.answers[place] = answer
        return self

    def brokers(
        self, bootstrap_servers: str = "a:1", timeout_ms: int = 1_000, bootstrap_timeout_ms: int | None = None, **more: Any
    ) -> Brokers:
        settings = ClientSettings(bootstrap_servers=bootstrap_servers, client_id="tester", **more)
        times: dict[str, Any] = {"timeout_ms": timeout_ms, "bootstrap_timeout_ms": bootstrap_timeout_ms, "clock": lambda: self.now}
        return Brokers(settings, connect=self._connect, pause=self._pause, rng=lambda: 0.5, **times)

    def _connect(self, address: Address, settings: ClientSettings, timeout_ms: int) -> Any:
        place = f"{address.host}:{address.port}"
        if place not in self.answers:
            self.now += 0.01
            raise BrokerUnavailableError(f"no connection to broker {place}")
        self.connected.append(place)

        def answer(api_key: int, request: Any) -> Any:
            self.asked.append((place, api_key))
            return self.answers[place](api_key, request)

        return ScriptedConnection(place, answer, self.api_versions)

    def _pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def scripted() -> ScriptedBrokers:
    """Scripted brokers, and a clock that only pauses move."""
    return ScriptedBrokers()
