"""One connection to one broker that never waits: requests go out and responses come in as far as the socket allows.

It takes over a `BrokerConnection` when that is open, encrypted and authenticated. Its user waits for the socket, and closes it when the
broker does not answer in time; any failure closes it, too.
"""

import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.client.errors import BrokerUnavailableError
from ottla.client.network.connection import (
    LENGTH_BYTES,
    BrokerConnection,
    FrameBuffer,
    next_correlation_id,
    request_frame,
    response_body,
    response_bytes,
    unsupported,
)
from ottla.client.security.tls import refusal
from ottla.protocol.errors import PeerError

_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
READS_MAX: Final = 64
"""Calls of recv before the user of the channel has a look at other channels."""


class Channel:
    """A connection to a broker. `clock` is in seconds. Methods raise BrokerUnavailableError when it is lost, PeerError for bad frames."""

    def __init__(self, connection: BrokerConnection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._client_id, self._socket, self._versions, self._ends_at = connection.detach()
        self._clock = clock
        self._used_at = clock()
        self._socket.setblocking(False)
        self._correlation_id = 0
        self._in_flight: deque[tuple[int, bool]] = deque()
        self._out = bytearray()
        self._head = bytearray()
        self._frame: FrameBuffer | None = None

    def fileno(self) -> int:
        """The socket's, -1 once it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection; responses to requests in flight are lost."""
        self._socket.close()

    @property
    def wants_write(self) -> bool:
        """Whether requests wait until the socket takes more."""
        return bool(self._out)

    def is_stale(self, idle_ms_max: int) -> bool:
        """Whether to reconnect before the next request: it will be closed soon, or had no request for `idle_ms_max` (-1: no limit)."""
        now = self._clock()
        is_idle = 0 <= idle_ms_max < (now - self._used_at) * 1000
        return not self._in_flight and (self._socket.fileno() < 0 or now >= self._ends_at or is_idle)

    def version(self, api_key: int, lowest: int, highest: int) -> int:
        """The highest version from `lowest` to `highest` that the broker supports. Raises UnsupportedBrokerError."""
        low, high = self._versions.get(api_key, (0, -1))
        version = min(high, highest)
        if version < max(low, lowest):
            raise unsupported(self.name, api_key, lowest, self._versions.get(api_key))
        return version

    def send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool) -> None:
        """Send one request; `receive` gives the responses in the order of the requests."""
        self._correlation_id = next_correlation_id(self._correlation_id)
        self._out += request_frame(api_key, version, self._correlation_id, self._client_id, body, is_flexible=is_flexible)
        self._in_flight.append((self._correlation_id, is_flexible))
        self._used_at = self._clock()
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except _LATER:
            return
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> list[memoryview]:
        """The bodies of complete responses, read-only, without their headers; empty when none is complete yet."""
        bodies = []
        try:
            for _ in range(READS_MAX):
                body = self._read()
                if body is not None:
                    bodies.append(body)
        except _LATER:
            return bodies
        except OSError as error:
            if not bodies:  # the error comes again with the next call
                raise self._lost(error) from error
        return bodies

    @property
    def has_pending(self) -> bool:
        """Whether there is more to read than the socket shows: TLS reads whole records."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _read(self) -> memoryview | None:
        """Read once; a response if that completes one."""
        if self._frame is None:
            data = self._socket.recv(LENGTH_BYTES - len(self._head))
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._head += data
            if len(self._head) < LENGTH_BYTES:
                return None
            self._frame = FrameBuffer(response_bytes(self.name, self._head))
        self._frame.receive(self._socket)
        if not self._frame.is_full:
            return None
        frame, self._frame, self._head = self._frame.view(), None, bytearray()
        return self._body(frame)

    def _body(self, frame: memoryview) -> memoryview:
        if not self._in_flight:
            raise PeerError(f"broker {self.name} sent a response without a request")
        expected, is_flexible = self._in_flight.popleft()
        return response_body(self.name, frame, expected, is_flexible=is_flexible)

    def _lost(self, error: OSError) -> Exception:
        if isinstance(error, ssl.SSLError):
            return refusal(self.name, error)
        return BrokerUnavailableError(f"lost broker {self.name}: {error}")
