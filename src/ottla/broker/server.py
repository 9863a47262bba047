"""Bytes in, frames out, answers back: one connection at a time takes one request at a time, as Kafka does.

It moves bytes and nothing else. A large frame is read straight into its own buffer; small ones are handled where the socket put them. While
a request waits for its answer (a parked JoinGroup, a long poll), or the peer does not read, later frames wait, up to a bound. Answers that
are there by the end of what was read, or of a turn of the loop, share one write.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from struct import Struct
from typing import TYPE_CHECKING, cast

from ottla.broker.api import Request
from ottla.broker.dispatch import dispatch, read_request
from ottla.core.errors import PeerError, StorageError
from ottla.core.text import printable
from ottla.core.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.broker.server")

RECEIVE_BYTES = 256 * 1024
"""One read takes at most this much while no frame is under way; the buffer is shared by all connections of a loop."""
WAITING_BYTES_MAX = 1024 * 1024
"""Frames that wait behind a parked request: beyond this the socket is not read."""
OUT_BYTES_MAX = 64 * 1024
"""So much of answers waits for those that follow; then it is written, and a peer that reads slowly is noticed."""

_FRAME_SIZE = Struct(">i")

_NO_BUFFER = memoryview(b"")


class Server:
    """The connections of one listener."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.turn = node.cluster.turn
        self.connections: set[Connection] = set()
        self.receive_buffer = bytearray(RECEIVE_BYTES)
        self.frame_bytes_max = node.cluster.config.number("socket.request.max.bytes")
        self.connections_max = node.cluster.config.number("max.connections")
        self.is_stopping = False

    def connection(self) -> "Connection":
        """A protocol for a new socket."""
        return Connection(self)

    def stop_reading(self) -> None:
        """Takes no request any more; what is under way may still be answered."""
        self.is_stopping = True
        for connection in self.connections:
            connection.stop_reading()

    def close(self) -> None:
        """Closes every connection at once; what they wait for is dropped."""
        for connection in list(self.connections):
            connection.write_out()
            connection.transport.abort()


class Connection(asyncio.BufferedProtocol):
    """One socket: asyncio's buffered protocol, so that a frame's bytes are written once, where they stay."""

    __slots__ = (
        "client_host", "closed", "filled", "frame", "handling", "out", "out_bytes", "parked", "read_paused", "request", "server",
        "transport", "waiting", "waiting_bytes", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client_host = ""
        self.frame: bytearray | None = None
        self.filled = 0
        self.parked = False
        self.request: Request | None = None
        self.handling = False
        self.write_paused = False
        self.read_paused = False
        self.closed = False
        self.waiting: deque[bytearray] = deque()
        self.waiting_bytes = 0
        self.out: list[Buffer] = []
        self.out_bytes = 0

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is open."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = java_address(peer[0]) if peer else "/"
        if self.server.is_stopping or len(self.server.connections) >= self.server.connections_max:
            self.closed = True
            self.transport.abort()
            return
        self.server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone: answers that come later go nowhere."""
        self.closed = True
        self.waiting.clear()
        self.out.clear()
        self.frame = None
        self.server.connections.discard(self)
        if self.request is not None:
            self.request.gone()
            self.request = None

    def stop_reading(self) -> None:
        """The broker stops: what this peer sent and nobody has looked at is dropped."""
        self.waiting.clear()
        if not (self.read_paused or self.transport.is_closing()):
            self.transport.pause_reading()
        self.read_paused = True

    def pause_writing(self) -> None:
        """The peer reads slowly: take nothing more from it until it has."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """The peer has read on."""
        self.write_paused = False
        self.go_on()
        self.write_out()

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next bytes go: the rest of the frame under way, or the shared buffer behind what it holds of an unfinished size."""
        if self.frame is None:
            return self.server.receive_buffer
        return memoryview(self.frame)[self.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self.closed:
            return
        try:
            if self.frame is None:
                self._take_frames(memoryview(self.server.receive_buffer)[:nbytes])
            else:
                self.filled += nbytes
                if self.filled == len(self.frame):
                    self._frame_is_full(self.frame)
        except (PeerError, StorageError) as error:
            self._refuse(error)
        if self.out:
            self.write_out()

    # frames

    def _take_frames(self, data: memoryview) -> None:
        at, end = 0, len(data)
        while end - at >= 4 and not self.closed:
            (size,) = _FRAME_SIZE.unpack_from(data, at)
            if not 0 < size <= self.server.frame_bytes_max:
                raise self._impossible(size)
            if at + 4 + size > end:
                break
            self._take_frame(data[at + 4 : at + 4 + size])
            at += 4 + size
        if at < end and not self.closed:
            self._begin_frame(data[at:])

    def _begin_frame(self, part: memoryview) -> None:
        # Fewer than four bytes do not tell the size yet: a frame of four is begun, and grows when they are there.
        size = self._frame_size(part[:4]) if len(part) >= 4 else 0
        self.frame = bytearray(4 + size)
        self.frame[: len(part)] = part
        self.filled = len(part)

    def _frame_is_full(self, frame: bytearray) -> None:
        size = self._frame_size(frame[:4])
        if len(frame) == 4 and size > 0:
            self.frame = bytearray(4 + size)
            self.frame[:4] = frame
            return
        self.frame = None
        self.filled = 0
        self._take_frame(memoryview(frame)[4:])

    def _frame_size(self, prefix: Buffer) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 < size <= self.server.frame_bytes_max:
            raise self._impossible(size)
        return size

    def _impossible(self, size: int) -> PeerError:
        return PeerError(f"a frame of {size} bytes; allowed are 1 to {self.server.frame_bytes_max} (socket.request.max.bytes)")

    def _take_frame(self, frame: memoryview) -> None:
        if not (self.parked or self.write_paused or self.waiting):
            self._handle(frame)
            return
        self.waiting.append(bytearray(frame))  # a handler may write into its frame
        self.waiting_bytes += len(frame)
        if self.waiting_bytes > WAITING_BYTES_MAX and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Takes the frames that wait, as far as nothing holds them back any more; what they are answered is still to be written."""
        while self.waiting and not (self.parked or self.write_paused or self.closed):
            frame = self.waiting.popleft()
            self.waiting_bytes -= len(frame)
            try:
                self._handle(memoryview(frame))
            except (PeerError, StorageError) as error:
                self._refuse(error)
            except Exception as error:  # noqa: BLE001 - said in the log; nobody above would close this connection
                self._fail(error)
        if self.read_paused and self.waiting_bytes <= WAITING_BYTES_MAX and not (self.closed or self.server.is_stopping):
            self.read_paused = False
            self.transport.resume_reading()

    # requests and answers

    def _handle(self, frame: memoryview) -> None:
        api, request = read_request(frame, self.client_host)
        request.send = self._answer
        request.fail = self._fail
        self.request = request
        self.parked = self.handling = True
        try:
            dispatch(self.server.node, api, request)
        finally:
            self.handling = False
            request.buffer = _NO_BUFFER  # thousands may be parked

    def _answer(self, parts: list[Buffer]) -> None:
        assert self.parked, "a request was answered twice"
        self.parked = False
        self.request = None
        if parts and not self.closed:
            self.out += parts
            self.out_bytes += sum(map(len, parts))
            if self.out_bytes > OUT_BYTES_MAX:
                self.write_out()
        if not self.handling:  # the answer to a parked request: whoever waited behind it may go on
            self.server.turn.answered(self)

    def write_out(self) -> None:
        """Writes the answers that are there."""
        out, self.out = self.out, []
        if out and not self.closed:
            if len(out) == 1:
                self.transport.write(out[0])
            elif self.out_bytes <= OUT_BYTES_MAX:
                self.transport.write(b"".join(out))
            else:
                self.transport.writelines(out)
        self.out_bytes = 0

    def _refuse(self, error: PeerError | StorageError) -> None:
        # A disk that fails where the answer has no place for it: the client tries again, as after a broker's crash.
        log.warning("closing the connection from %s: %s", self.client_host, printable(str(error)))
        self._close()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, (PeerError, StorageError)):  # a request that was not finished when its frame was handled
            self._refuse(error)
            return
        # Our own bug: a client that is told nothing would wait for ever.
        log.error("closing the connection from %s: its request failed unexpectedly", self.client_host, exc_info=error)
        self._close()

    def _close(self) -> None:
        self.write_out()
        self.closed = True
        self.transport.close()


def java_address(address: str) -> str:
    """An address as Java prints an InetAddress, which is how Kafka shows a member's host: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`."""
    parsed = ip_address(address)
    if parsed.version == 4:
        return f"/{address}"
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    words = ":".join(f"{int.from_bytes(parsed.packed[at : at + 2]):x}" for at in range(0, 16, 2))
    return f"/{words}%{parsed.scope_id}" if parsed.scope_id else f"/{words}"


async def listen(node: "Node", host: str, port: int) -> tuple[Server, asyncio.AbstractServer, int]:
    """Opens the listener (port 0: any free one). Returns the server, asyncio's, and the port."""
    server = Server(node)
    loop = asyncio.get_running_loop()
    factory: Callable[[], asyncio.BaseProtocol] = server.connection
    sockets = await loop.create_server(factory, host, port, backlog=1024)
    return server, sockets, int(sockets.sockets[0].getsockname()[1])
