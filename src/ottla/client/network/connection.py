"""One connection to a broker: frames, correlation of responses, timeouts.

Memory for one response: it is used as bytes come, whatever length the broker has announced.

Frames of requests and responses, as every connection writes and reads them: lengths, headers, and the bounds of what a broker sends.

One blocking connection to one broker: requests and responses in order, each bounded in size and time.

On connecting it asks for the broker's API versions (KIP-35), and refuses to send any other. It never retries and never chooses a broker;
any failure closes it.
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
from typing import Any, Final, NamedTuple, Protocol, Self

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
    """Room for a response of `size` bytes.

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
LENGTH_BYTES: Final = 4

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID_BYTES: Final = 4


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, body: bytes, *, is_flexible: bool) -> bytes:
    """A whole request. `is_flexible`: whether its header has tagged fields (KIP-482)."""
    writer = Writer().int16(api_key).int16(version).int32(correlation_id).string(client_id)
    header = (writer.uvarint(0) if is_flexible else writer).to_bytes()
    return _LENGTH.pack(len(header) + len(body)) + header + body


def next_correlation_id(last: int) -> int:
    """The correlation id of the request after the one with `last`."""
    return (last + 1) & 0x7FFFFFFF


def response_bytes(name: str, head: bytes | bytearray | memoryview) -> int:
    """The length of a response of broker `name`, from its first LENGTH_BYTES. Raises PeerError for an impossible one."""
    (size,) = _LENGTH.unpack(head)
    if not _CORRELATION_ID_BYTES <= size <= FRAME_BYTES_MAX:
        raise PeerError(f"broker {name} announced an answer of {size} bytes (the limit is {FRAME_BYTES_MAX})")
    return int(size)


def response_body(name: str, frame: memoryview, correlation_id: int, *, is_flexible: bool) -> memoryview:
    """A response without its header. Raises PeerError unless it answers the request with this id."""
    reader = Reader(frame, flexible=is_flexible)
    if reader.int32() != correlation_id:
        raise PeerError(f"broker {name} answered out of order")
    reader.skip_tagged_fields()
    return frame[reader.at :]


def unsupported(name: str, api_key: int, version: int, supported: tuple[int, int] | None) -> UnsupportedBrokerError:
    """The error for a version that broker `name` does not support; `supported` are its lowest and highest."""
    speaks = f"it speaks {supported[0]} to {supported[1]}" if supported else "it has no such API"
    return UnsupportedBrokerError(f"broker {name} does not speak version {version} of API {api_key} ({speaks}): a newer one does")


_API_VERSIONS_VERSION: Final = 3
_API_VERSION_ITEM_BYTES: Final = 7
_SOFTWARE: Final = "ottla"
_TLS_ALERT: Final = b"\x15\x03"
_LIFETIME_USED: Final = 0.85
"""The part of a session's lifetime that is used, as by Kafka's own client."""


def readable(connections: "Iterable[BrokerConnection]", wait_ms: float) -> "list[BrokerConnection]":
    """Those of `connections` that have something to read, or are closed by the broker; waits up to `wait_ms` for the first one."""
    by_fileno = {connection.fileno(): connection for connection in connections}
    poll = select.poll()
    for fileno in by_fileno:
        poll.register(fileno, select.POLLIN)
    return [by_fileno[fileno] for fileno, _ in poll.poll(wait_ms)]


class Detached(NamedTuple):
    """An open connection without its reader: the API versions of the broker, and when it will end (seconds of the clock)."""

    name: str
    client_id: str
    socket: socket.socket
    versions: dict[int, tuple[int, int]]
    ends_at: float


class BrokerConnection:
    """A connection to `host`:`port`; `timeout_ms` applies to connecting and to each response, and may be changed in between.

    `tls` encrypts it; a buffer size of -1 is the operating system's. Raises BrokerUnavailableError when the broker is not
    reachable or hangs up, AuthenticationError when one side rejects the other, and PeerError for malformed responses.
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
    ) -> None:
        self.name = f"{host}:{port}"
        self.timeout_ms = timeout_ms
        self._client_id = client_id
        self._clock = clock
        self._used_at = clock()
        self._ends_at = inf
        self._correlation_id = 0
        self._in_flight: deque[tuple[int, bool]] = deque()
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
                self._socket = self._encrypted(tls, host)
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
        self._socket.close()

    def is_stale(self, idle_ms_max: int) -> bool:
        """Whether to reconnect: it is closed or will be soon, or had no request for `idle_ms_max` (-1: no limit)."""
        now = self._clock()
        if self._socket.fileno() < 0 or now >= self._ends_at or 0 <= idle_ms_max < (now - self._used_at) * 1000:
            return True
        # Without a request in flight, anything to read is the end of the connection.
        return not self._in_flight and bool(readable([self], 0))

    def fileno(self) -> int:
        """The socket's, -1 once it is closed."""
        return self._socket.fileno()

    def detach(self) -> "Detached":
        """Give the socket away, with what is known of the broker; nothing is in flight. This object is not used any more."""
        assert not self._in_flight, "a response would be lost"
        return Detached(self.name, self._client_id, self._socket, self._versions, self._ends_at)

    def end_after(self, lifetime_ms: int) -> None:
        """The broker closes the connection after so many milliseconds (0: never): reconnect well before that (KIP-368)."""
        if lifetime_ms > 0:
            self._ends_at = self._clock() + lifetime_ms * _LIFETIME_USED / 1000

    def speaks(self, api_key: int, version: int) -> bool:
        """Whether the broker supports this version of an API."""
        low, high = self._versions.get(api_key, (0, -1))
        return low <= version <= high

    def call(self, request: Any, response_class: Any) -> Any:
        """Send a kio request and wait for its response, a kio object of `response_class`."""
        self.send(request.__api_key__, request.__version__, encode(request), is_flexible=bool(request.__flexible__))
        body = self.receive()
        try:
            return decoder(response_class)(body, 0)
        except PeerError as error:
            raise PeerError(f"broker {self.name} sent no {response_class.__name__}: {error}") from error

    def send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool = True) -> None:
        """Send one request without waiting; `receive` gives the responses in the order of the requests.

        `is_flexible`: whether this version has tagged fields (KIP-482), in its headers too.
        """
        if not self.speaks(api_key, version):
            raise unsupported(self.name, api_key, version, self._versions.get(api_key))
        self._send(api_key, version, body, is_flexible=is_flexible, answers_flexible=is_flexible)

    def receive(self) -> memoryview:
        """The body of the next response, read-only, without its header."""
        expected, is_flexible = self._in_flight.popleft()
        try:
            frame = self._read_frame()
        except ssl.SSLError as error:
            # With TLS 1.3 a broker that requires our certificate reports its absence only now.
            self.close()
            raise refusal(self.name, error) from error
        except OSError as error:
            self.close()
            what = f"no answer within {self.timeout_ms} ms" if isinstance(error, TimeoutError) else str(error)
            raise BrokerUnavailableError(f"lost broker {self.name}: {what}") from error
        except (PeerError, AuthenticationError):
            self.close()
            raise
        try:
            return response_body(self.name, frame, expected, is_flexible=is_flexible)
        except PeerError:
            self.close()
            raise

    def _encrypted(self, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        try:
            return tls.wrap_socket(self._socket, server_hostname=host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            why = "it closed the connection: does it speak TLS on this port?"
            raise BrokerUnavailableError(f"no encrypted connection to broker {self.name}: {why}") from error
        except ssl.SSLError as error:
            raise refusal(self.name, error) from error
        except (OSError, ValueError) as error:
            raise BrokerUnavailableError(f"no encrypted connection to broker {self.name}: {error}") from error

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        body = Writer(flexible=True).string(_SOFTWARE).string("1").end().to_bytes()
        self._send(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, body, is_flexible=True, answers_flexible=False)
        reader = Reader(self.receive(), flexible=True)
        if reader.int16():
            raise UnsupportedBrokerError(f"broker {self.name} does not speak ApiVersions 3: Apache Kafka 2.4 or later does")
        versions = {}
        for _ in range(reader.count(_API_VERSION_ITEM_BYTES)):
            api_key = reader.int16()
            versions[api_key] = (reader.int16(), reader.int16())
            reader.skip_tagged_fields()
        return versions

    def _send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool, answers_flexible: bool) -> None:
        """The flags: whether the headers of request and response have tagged fields (ApiVersions responses never have, KIP-511)."""
        self._correlation_id = next_correlation_id(self._correlation_id)
        frame = request_frame(api_key, version, self._correlation_id, self._client_id, body, is_flexible=is_flexible)
        try:
            # Reset: receiving lowers the timeout to the time left.
            self._socket.settimeout(max(self.timeout_ms, 1) / 1000)
            self._socket.sendall(frame)
        except OSError as error:
            self.close()
            raise BrokerUnavailableError(f"lost broker {self.name}: {error}") from error
        self._in_flight.append((self._correlation_id, answers_flexible))
        self._used_at = self._clock()

    def _read_frame(self) -> memoryview:
        deadline = self._clock() + self.timeout_ms / 1000
        head = self._read(LENGTH_BYTES, deadline)
        if bytes(head[:2]) == _TLS_ALERT:
            raise AuthenticationError(f"broker {self.name} speaks TLS on this port: security.protocol must be SSL or SASL_SSL")
        return self._read(response_bytes(self.name, head), deadline)

    def _read(self, size: int, deadline: float) -> memoryview:
        buffer = FrameBuffer(size)
        while not buffer.is_full:
            left = deadline - self._clock()
            if left <= 0:
                raise TimeoutError("the answer came too slowly")
            self._socket.settimeout(left)
            buffer.receive(self._socket)
        return buffer.view()
