"""A connection to a broker: requests and responses in order, each bounded in size and time.

Its core never waits: requests go out and responses come in as far as the socket allows, and its user waits for the socket. Calls that wait
for their response are a layer on it. On connecting it asks for the broker's API versions (KIP-35), and refuses to send any other. It never
retries and never chooses a broker; any failure closes it.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from io import BytesIO
from math import inf
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.client.errors import AuthenticationError, BrokerUnavailableError, UnsupportedBrokerError
from ottla.client.security.tls import refusal
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import decoder, encode
from ottla.protocol.wire.primitives import Reader, Writer


class Source(Protocol):
    """A socket, plain or encrypted."""

    def recv_into(self, buffer: memoryview, /) -> int: ...


class FrameBuffer:
    """Room for `size` bytes of a response: it takes memory as bytes come, whatever length the broker has announced.

    The operating system provides its pages when they are written to: `bytes` asks for zeroed memory, while a bytearray writes the zeros
    itself. BytesIO gives a view on those bytes without a copy, since nothing else refers to them.
    """

    def __init__(self, size: int) -> None:
        self._data = BytesIO(bytes(size)).getbuffer()
        self._filled = 0

    @property
    def is_full(self) -> bool:
        """Whether the response is complete."""
        return self._filled == len(self._data)

    def receive(self, source: Source) -> None:
        """Read once. Raises ConnectionError at the end of the connection, and what `source` raises."""
        count = source.recv_into(self._data[self._filled :])
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        self._filled += count

    def view(self) -> memoryview:
        """What has come, read-only."""
        return self._data[: self._filled].toreadonly()


FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest response that is read: above Kafka's default fetch.max.bytes of 55 MiB, plus one batch beyond it."""
READS_MAX: Final = 64
"""Calls of recv before the user of a connection has a look at others."""

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID_BYTES: Final = 4
_API_VERSIONS_VERSION: Final = 3
_API_VERSION_ITEM_BYTES: Final = 7
_SOFTWARE: Final = "ottla"
_TLS_ALERT: Final = b"\x15\x03"
_LIFETIME_USED: Final = 0.85
"""The part of a session's lifetime that is used, as by Kafka's own client."""
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, body: bytes, *, is_flexible: bool) -> bytes:
    """A whole request. `is_flexible`: whether its header has tagged fields (KIP-482)."""
    writer = Writer().int16(api_key).int16(version).int32(correlation_id).string(client_id)
    header = (writer.uvarint(0) if is_flexible else writer).to_bytes()
    return _LENGTH.pack(len(header) + len(body)) + header + body


def next_correlation_id(last: int) -> int:
    """The correlation id of the request after the one with `last`."""
    return (last + 1) & 0x7FFFFFFF


def ready(connections: "Iterable[BrokerConnection]", wait_ms: float) -> "list[BrokerConnection]":
    """Those of `connections` that can be read, or written where requests wait for that, or are closed by the broker.

    It waits up to `wait_ms` for the first one.
    """
    by_fileno = {connection.fileno(): connection for connection in connections}
    poll = select.poll()
    for fileno, connection in by_fileno.items():
        poll.register(fileno, select.POLLIN | select.POLLOUT if connection.wants_write else select.POLLIN)
    return [by_fileno[fileno] for fileno, _ in poll.poll(wait_ms)]


class BrokerConnection:
    """A connection to `host`:`port`; `timeout_ms` applies to connecting and to each wait for a response, and may be changed.

    `tls` encrypts it; a buffer size of -1 is the operating system's; `clock` is in seconds. Methods raise BrokerUnavailableError when the
    broker is not reachable or hangs up, AuthenticationError when one side rejects the other, and PeerError for malformed responses.
    `opening` gets the socket before anything is sent: another thread may shut it down, which ends a wait in this one.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        clock: Callable[[], float] = time.monotonic,
        opening: Callable[[socket.socket], None] | None = None,
    ) -> None:
        self.name = f"{host}:{port}"
        self.timeout_ms = timeout_ms
        self._client_id = client_id
        self._clock = clock
        self._used_at = clock()
        self._ends_at = inf
        self._correlation_id = 0
        self._in_flight: deque[tuple[int, bool]] = deque()
        self._out = bytearray()
        self._length = FrameBuffer(_LENGTH.size)
        self._frame: FrameBuffer | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_ms / 1000)
        except (OSError, ValueError, OverflowError) as error:
            # Malformed names and ports come from other brokers' responses, too.
            raise BrokerUnavailableError(f"no connection to broker {self.name}: {error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, size in ((socket.SO_RCVBUF, receive_buffer_bytes), (socket.SO_SNDBUF, send_buffer_bytes)):
                if size >= 0:
                    self._socket.setsockopt(socket.SOL_SOCKET, option, size)
            if tls is not None:
                self._socket = self._wrapped(tls, host)
            if opening is not None:
                opening(self._socket)
            if isinstance(self._socket, ssl.SSLSocket):
                self._shake_hands(self._socket)
            self._socket.setblocking(False)
            self._versions = {int(ApiKey.API_VERSIONS): (_API_VERSIONS_VERSION, _API_VERSIONS_VERSION)}
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; responses to requests in flight are lost."""
        self._in_flight.clear()
        self._socket.close()

    def fileno(self) -> int:
        """The socket's, -1 once it is closed."""
        return self._socket.fileno()

    def is_stale(self, idle_ms_max: int) -> bool:
        """Whether to reconnect: it is closed or will be soon, or had no request for `idle_ms_max` (-1: no limit).

        Never while a response is to come. Else, anything to read is the end of the connection.
        """
        if self._in_flight:
            return False
        now = self._clock()
        is_idle = 0 <= idle_ms_max < (now - self._used_at) * 1000
        return self.fileno() < 0 or now >= self._ends_at or is_idle or bool(ready([self], 0))

    def end_after(self, lifetime_ms: int) -> None:
        """The broker closes the connection after so many milliseconds (0: never): reconnect well before that (KIP-368)."""
        if lifetime_ms > 0:
            self._ends_at = self._clock() + lifetime_ms * _LIFETIME_USED / 1000

    def speaks(self, api_key: int, version: int) -> bool:
        """Whether the broker supports this version of an API."""
        low, high = self._versions.get(api_key, (0, -1))
        return low <= version <= high

    def version(self, api_key: int, lowest: int, highest: int) -> int:
        """The highest version from `lowest` to `highest` that the broker supports. Raises UnsupportedBrokerError."""
        low, high = self._versions.get(api_key, (0, -1))
        version = min(high, highest)
        if version < max(low, lowest):
            speaks = f"it speaks {low} to {high}" if api_key in self._versions else "it has no such API"
            message = f"broker {self.name} does not speak version {lowest} of API {api_key} ({speaks}): a newer one does"
            raise UnsupportedBrokerError(message)
        return version

    def send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool = True) -> None:
        """Send one request without waiting; responses come in the order of the requests. Raises UnsupportedBrokerError.

        `is_flexible`: whether this version has tagged fields (KIP-482), in its headers too (responses to ApiVersions never, KIP-511).
        """
        self.version(api_key, version, version)
        self._correlation_id = next_correlation_id(self._correlation_id)
        self._out += request_frame(api_key, version, self._correlation_id, self._client_id, body, is_flexible=is_flexible)
        self._in_flight.append((self._correlation_id, is_flexible and api_key != ApiKey.API_VERSIONS))
        self._used_at = self._clock()
        self.flush()

    @property
    def wants_write(self) -> bool:
        """Whether requests wait until the socket takes more."""
        return bool(self._out)

    def flush(self) -> None:
        """Write as much as the socket takes."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except _LATER:
            return
        except OSError as error:
            self.close()
            raise BrokerUnavailableError(f"lost broker {self.name}: {error}") from error

    @property
    def has_pending(self) -> bool:
        """Whether there is more to read than the socket shows: TLS reads whole records."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def receive(self) -> list[memoryview]:
        """The bodies of complete responses, read-only, without their headers; empty when none is complete yet."""
        bodies: list[memoryview] = []
        try:
            for _ in range(READS_MAX):
                body = self._read()
                if body is not None:
                    bodies.append(body)
                    if not self._in_flight:
                        break
        except _LATER:
            return bodies
        except OSError as error:
            if bodies:  # the error comes again with the next call
                return bodies
            self.close()
            if isinstance(error, ssl.SSLError):
                # With TLS 1.3 a broker that requires our certificate reports its absence only now.
                raise refusal(self.name, error) from error
            raise BrokerUnavailableError(f"lost broker {self.name}: {error}") from error
        except (PeerError, AuthenticationError):
            self.close()
            raise
        return bodies

    def wait_for_response(self) -> memoryview:
        """The body of the response to the one request in flight, for which it waits."""
        assert len(self._in_flight) == 1, "other responses would be lost"
        bodies: list[memoryview] = []
        ends_at = self._clock() + self.timeout_ms / 1000
        while not bodies:
            left_ms = (ends_at - self._clock()) * 1000
            if left_ms <= 0:
                self.close()
                raise BrokerUnavailableError(f"lost broker {self.name}: no answer within {self.timeout_ms} ms")
            if not self.has_pending:
                ready([self], left_ms)
            self.flush()
            bodies = self.receive()
        return bodies[0]

    def call(self, request: Any, response_class: Any) -> Any:
        """Send a kio request and wait for its response, a kio object of `response_class`."""
        self.send(request.__api_key__, request.__version__, encode(request), is_flexible=bool(request.__flexible__))
        body = self.wait_for_response()
        try:
            return decoder(response_class)(body, 0)
        except PeerError as error:
            raise PeerError(f"broker {self.name} sent no {response_class.__name__}: {error}") from error

    def _wrapped(self, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        try:
            return tls.wrap_socket(self._socket, server_hostname=host, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:
            raise BrokerUnavailableError(f"no encrypted connection to broker {self.name}: {error}") from error

    def _shake_hands(self, encrypted: ssl.SSLSocket) -> None:
        try:
            encrypted.do_handshake()
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            why = "it closed the connection: does it speak TLS on this port?"
            raise BrokerUnavailableError(f"no encrypted connection to broker {self.name}: {why}") from error
        except ssl.SSLError as error:
            raise refusal(self.name, error) from error
        except (OSError, ValueError) as error:
            raise BrokerUnavailableError(f"no encrypted connection to broker {self.name}: {error}") from error

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        body = Writer(flexible=True).string(_SOFTWARE).string("1").end().to_bytes()
        self.send(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, body)
        reader = Reader(self.wait_for_response(), flexible=True)
        if reader.int16():
            raise UnsupportedBrokerError(f"broker {self.name} does not speak ApiVersions 3: Apache Kafka 2.4 or later does")
        versions = {}
        for _ in range(reader.count(_API_VERSION_ITEM_BYTES)):
            api_key = reader.int16()
            versions[api_key] = (reader.int16(), reader.int16())
            reader.skip_tagged_fields()
        return versions

    def _read(self) -> memoryview | None:
        """Read once; the body of a response if that completes one."""
        buffer = self._frame or self._length
        buffer.receive(self._socket)
        if not buffer.is_full:
            return None
        data = buffer.view()
        if buffer is self._length:
            if bytes(data[:2]) == _TLS_ALERT:
                raise AuthenticationError(f"broker {self.name} speaks TLS on this port: security.protocol must be SSL or SASL_SSL")
            (size,) = _LENGTH.unpack(data)
            if not _CORRELATION_ID_BYTES <= size <= FRAME_BYTES_MAX:
                raise PeerError(f"broker {self.name} announced an answer of {size} bytes (the limit is {FRAME_BYTES_MAX})")
            self._frame = FrameBuffer(size)
            return None
        self._length, self._frame = FrameBuffer(_LENGTH.size), None
        if not self._in_flight:
            raise PeerError(f"broker {self.name} sent a response without a request")
        correlation_id, is_flexible = self._in_flight.popleft()
        reader = Reader(data, flexible=is_flexible)
        if reader.int32() != correlation_id:
            raise PeerError(f"broker {self.name} answered out of order")
        reader.skip_tagged_fields()
        return data[reader.at :]
