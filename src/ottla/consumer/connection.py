"""One blocking connection to one broker: frames out, frames in, in order, each bounded in size and time.

It learns on connecting what the broker speaks (ApiVersions, KIP-35), and refuses to ask anything else. It never retries and never chooses a
broker; whatever fails closes it.
"""

import io
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from types import TracebackType
from typing import Any, Final, Self

from kio.serial import entity_reader, entity_writer

from ottla.consumer.errors import AuthenticationError, BrokerUnavailableError, UnsupportedBrokerError
from ottla.consumer.tls import refusal
from ottla.core.bounds import walker
from ottla.core.errors import PeerError
from ottla.core.wire import Reader, Writer

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest answer that is read: above Kafka's default fetch.max.bytes of 55 MiB, with room for one batch beyond it."""

_API_VERSIONS: Final = 18
_API_VERSIONS_VERSION: Final = 3
_API_VERSION_ITEM_BYTES: Final = 7
_LENGTH: Final = struct.Struct(">i")
_SOFTWARE: Final = "ottla"
_TLS_ALERT: Final = b"\x15\x03"
_LIFE_USED: Final = 0.85
"""The part of a session's lifetime that is used, as by Kafka's own client."""


def readable(connections: "Iterable[Connection]", wait_ms: float) -> "list[Connection]":
    """Those of `connections` that have something to read, or have ended; waits up to `wait_ms` for the first one."""
    by_fileno = {connection.fileno(): connection for connection in connections}
    poll = select.poll()
    for fileno in by_fileno:
        poll.register(fileno, select.POLLIN)
    return [by_fileno[fileno] for fileno, _ in poll.poll(wait_ms)]


class Connection:
    """A connection to `host`:`port`; `timeout_ms` holds for connecting and for each answer, and may be changed between them.

    `tls` encrypts it; a buffer size of -1 is the operating system's. Raises BrokerUnavailableError when there is no broker, or none any
    more, AuthenticationError when one side does not take the other, and PeerError when a broker sends what cannot be an answer.
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
        self._waiting: deque[tuple[int, bool]] = deque()
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_ms / 1000)
        except (OSError, ValueError, OverflowError) as error:
            # Names and ports that are none come from other brokers' answers, too.
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
        """Close the connection; answers that are still on their way are lost."""
        self._socket.close()

    def is_stale(self, idle_ms_max: int) -> bool:
        """Whether to connect anew: it ended or ends soon, or nothing was asked for `idle_ms_max` (-1: that may be as long as it wants)."""
        now = self._clock()
        if self._socket.fileno() < 0 or now >= self._ends_at or 0 <= idle_ms_max < (now - self._used_at) * 1000:
            return True
        # Where nothing is waited for, what can be read is the end.
        return not self._waiting and bool(readable([self], 0))

    def fileno(self) -> int:
        """The socket's, -1 once it is closed."""
        return self._socket.fileno()

    def end_after(self, lifetime_ms: int) -> None:
        """The broker closes it after so many milliseconds (0: never), so a new one is made well before that (KIP-368)."""
        if lifetime_ms > 0:
            self._ends_at = self._clock() + lifetime_ms * _LIFE_USED / 1000

    def speaks(self, api_key: int, version: int) -> bool:
        """Whether the broker knows this version of an API."""
        low, high = self._versions.get(api_key, (0, -1))
        return low <= version <= high

    def ask(self, request: Any, response_class: type[Any]) -> Any:
        """Send a kio request and wait for its answer, a kio object of `response_class`."""
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        self.send(request.__api_key__, request.__version__, body.getvalue(), is_flexible=bool(request.__flexible__))
        answer = self.receive()
        try:
            walker(response_class)(answer, 0, len(answer))  # kio makes room for any length it reads
            return entity_reader(response_class)(answer, 0)[0]
        except Exception as error:
            # Whatever a foreign parser makes of hostile bytes, the peer is to blame.
            raise PeerError(f"broker {self.name} sent no {response_class.__name__}: {error}") from error

    def send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool = True) -> None:
        """Send one request without waiting; `receive` gives the answers in the order of the requests.

        `is_flexible`: whether this version has tagged fields (KIP-482), in its headers too.
        """
        if not self.speaks(api_key, version):
            low, high = self._versions.get(api_key, (0, -1))
            speaks = f"it speaks {low} to {high}" if high >= 0 else "it has no such API"
            raise UnsupportedBrokerError(
                f"broker {self.name} does not speak version {version} of API {api_key} ({speaks}): a newer one does"
            )
        self._send(api_key, version, body, is_flexible=is_flexible, answers_flexible=is_flexible)

    def receive(self) -> memoryview:
        """The body of the next answer, read-only, without its header."""
        expected, is_flexible = self._waiting.popleft()
        try:
            frame = self._read_frame()
        except ssl.SSLError as error:
            # With TLS 1.3 a broker that misses our certificate says so only now.
            self.close()
            raise refusal(self.name, error) from error
        except OSError as error:
            self.close()
            what = f"no answer within {self.timeout_ms} ms" if isinstance(error, TimeoutError) else str(error)
            raise BrokerUnavailableError(f"lost broker {self.name}: {what}") from error
        except (PeerError, AuthenticationError):
            self.close()
            raise
        reader = Reader(frame)
        if reader.int32() != expected:
            self.close()
            raise PeerError(f"broker {self.name} answered out of order")
        if is_flexible:
            reader.tagged_fields()
        return frame[reader.at :]

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
        body = Writer().compact_string(_SOFTWARE).compact_string("1").uvarint(0).to_bytes()
        self._send(_API_VERSIONS, _API_VERSIONS_VERSION, body, is_flexible=True, answers_flexible=False)
        reader = Reader(self.receive())
        if reader.int16():
            raise UnsupportedBrokerError(f"broker {self.name} does not speak ApiVersions 3: Apache Kafka 2.4 or later does")
        versions = {}
        for _ in range(reader.count(_API_VERSION_ITEM_BYTES, compact=True)):
            api_key = reader.int16()
            versions[api_key] = (reader.int16(), reader.int16())
            reader.tagged_fields()
        return versions

    def _send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool, answers_flexible: bool) -> None:
        """Whether request and answer have tagged fields in their headers (the answer of ApiVersions never has, KIP-511)."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        writer = Writer().int16(api_key).int16(version).int32(self._correlation_id).string(self._client_id)
        header = (writer.uvarint(0) if is_flexible else writer).to_bytes()
        try:
            # Else it would have what was left when the last answer came.
            self._socket.settimeout(max(self.timeout_ms, 1) / 1000)
            self._socket.sendall(_LENGTH.pack(len(header) + len(body)) + header + body)
        except OSError as error:
            self.close()
            raise BrokerUnavailableError(f"lost broker {self.name}: {error}") from error
        self._waiting.append((self._correlation_id, answers_flexible))
        self._used_at = self._clock()

    def _read_frame(self) -> memoryview:
        deadline = self._clock() + self.timeout_ms / 1000
        head = self._read(4, deadline)
        if bytes(head[:2]) == _TLS_ALERT:
            raise AuthenticationError(f"broker {self.name} speaks TLS on this port: security.protocol must be SSL or SASL_SSL")
        (size,) = _LENGTH.unpack(head)
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise PeerError(f"broker {self.name} announced an answer of {size} bytes (the limit is {FRAME_BYTES_MAX})")
        return self._read(size, deadline)

    def _read(self, size: int, deadline: float) -> memoryview:
        data = memoryview(bytearray(size))
        at = 0
        while at < size:
            left = deadline - self._clock()
            if left <= 0:
                raise TimeoutError("the answer came too slowly")
            self._socket.settimeout(left)
            count = self._socket.recv_into(data[at:])
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            at += count
        return data.toreadonly()
