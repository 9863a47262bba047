"""Bytes in, frames out, answers back: one connection at a time takes one request at a time, as Kafka does.

It moves bytes and nothing else. A frame that does not come whole is read straight into its own buffer; others are handled where the
socket put them. While a request waits for its answer (a parked JoinGroup, a long poll), or the peer does not read, later frames wait, up to
a bound. Answers that are there by the end of what was read, or of an iteration of the loop, share one write.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from struct import Struct
from typing import TYPE_CHECKING, cast

from ottla.broker.api import Request
from ottla.broker.connection_quotas import quotas
from ottla.broker.dispatch import dispatch, read_request
from ottla.broker.request_memory import SHORT_READ_BYTES
from ottla.broker.unwritten_buffer import unwritten_buffer
from ottla.core.errors import PeerError, StorageError
from ottla.core.text import printable
from ottla.core.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.broker.server")

TICK_S = 1.0
IDLE_CHECK_S_MAX = 10.0
IDLE_CHECKS = 4
"""So often within connections.max.idle.ms, and at least every ten seconds: idle connections are closed so much late at most."""
RECEIVE_BYTES = 256 * 1024
"""One read takes at most this much; the buffer is shared by all connections of a loop."""
WAITING_BYTES_MAX = 1024 * 1024
"""Frames that wait behind a parked request: beyond this the socket is not read."""
UNSENT_BYTES_MAX = 16 * 1024
"""So much may be unsent before the peer's next request waits too, and its answers count (`AnswerMemory`)."""
WAITING_BYTES_FREE = 16 * 1024
"""Of them, so many are not counted among the requests of all connections."""
WAITING_FRAME_BYTES = 128
"""What a frame that waits costs beside its bytes: the smallest ones are fewer than these."""
OUT_BYTES_MAX = 64 * 1024
"""So much of answers waits for those that follow; then it is written, and a peer that reads slowly is noticed."""

_FRAME_SIZE = Struct(">i")
_SIZE_BYTES = 4

_NO_BUFFER = memoryview(b"")


class Server:
    """The connections of one listener."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.turn = node.cluster.turn
        self.pipelining = node.cluster.pipelining
        self.connections: set[Connection] = set()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.short_receive_buffer = self.receive_buffer[:SHORT_READ_BYTES]
        self.request_memory = node.cluster.request_memory
        self.answer_memory = node.cluster.answer_memory
        self.frame_bytes_max = node.cluster.config.number("socket.request.max.bytes")
        self.quotas = quotas(node.cluster.config, node.cluster.descriptors)
        self.idle_s = node.cluster.config.number("connections.max.idle.ms") / 1000
        self.now_s = 0.0
        """The loop's time as of the last tick: a second's precision is enough, and costs a connection nothing."""
        self._idle_check_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_stopping = False

    def connection(self) -> "Connection":
        """A protocol for a new socket."""
        return Connection(self)

    def begin_ticking(self, loop: asyncio.AbstractEventLoop) -> None:
        """Calls `tick` once a second until the server closes."""
        self._timer = loop.call_later(TICK_S, self.begin_ticking, loop)
        self.tick(loop.time())

    def tick(self, now_s: float) -> None:
        """Called once a second: closes connections that are idle, or hold memory that others wait for."""
        self.now_s = now_s
        self.request_memory.tick(now_s)
        self.answer_memory.tick(now_s)
        if now_s >= self._idle_check_s:
            self._idle_check_s = now_s + min(self.idle_s / IDLE_CHECKS, IDLE_CHECK_S_MAX)
            self.node.cluster.descriptors.check()
            if self.idle_s >= 0:
                for connection in [connection for connection in self.connections if connection.is_idle(now_s - self.idle_s)]:
                    connection.give_up(f"nothing was sent or received for {self.idle_s:g} s (connections.max.idle.ms)")

    def stop_reading(self) -> None:
        """Takes no request any more; what is under way may still be answered."""
        self.is_stopping = True
        for connection in self.connections:
            connection.stop_reading()

    def close(self) -> None:
        """Closes every connection at once; what they wait for is dropped."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.write_out()
            connection.transport.abort()


class Connection(asyncio.BufferedProtocol):
    """One socket: asyncio's buffered protocol, so that a frame's bytes are written once, where they stay."""

    __slots__ = (
        "address", "client_host", "closed", "deferred", "ended", "filled", "frame", "handling", "held", "memory", "moved_s", "out",
        "out_bytes", "parked", "read_paused", "reading_bytes", "request", "rest", "server", "since_s", "transport", "unsent", "waiting",
        "waiting_bytes", "waits_for_memory", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client_host = self.address = ""
        self.memory = server.request_memory
        self.frame: bytearray | None = None
        self.filled = 0
        self.held = 0
        self.since_s = 0.0
        self.moved_s = 0.0
        self.unsent = 0
        self.waits_for_memory = False
        self.parked = False
        self.request: Request | None = None
        self.handling = False
        self.write_paused = False
        self.read_paused = False
        self.closed = False
        self.deferred = self.ended = False
        self.waiting: deque[memoryview | bytearray] = deque()
        self.waiting_bytes = 0
        self.reading_bytes = 0
        self.rest = _NO_BUFFER
        self.out: list[Buffer] = []
        self.out_bytes = 0

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is open."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        server, self.address = self.server, peer[0] if peer else ""
        self.client_host = java_address(self.address) if peer else "/"
        if server.is_stopping or not server.quotas.admit(self.address, server.now_s):
            self.closed = True
            self.transport.abort()
            return
        self.moved_s = server.now_s
        self.transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        server.connections.add(self)

    def eof_received(self) -> bool:
        """The peer sends no more, and may be gone. What it sent before with acks=0 is handled all the same: it need not wait for that."""
        self.ended = self._handles_more()
        return self.ended

    def _handles_more(self) -> bool:
        """Whether there are requests that can be handled without a peer: none of them waits until it has read an answer, or for one."""
        return bool(self.waiting or self.rest) and not self.write_paused and (self.request is None or self.request.is_one_way)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone: answers that come later go nowhere."""
        self.closed = True
        self._drop_frames()
        self.server.answer_memory.give(self)
        self.out.clear()
        if self in self.server.connections:
            self.server.connections.remove(self)
            self.server.quotas.leave(self.address)
        if self.request is not None:
            self.request.gone()
            self.request = None

    def stop_reading(self) -> None:
        """The broker stops: what this peer sent and nobody has looked at is dropped."""
        self._drop_frames()
        self._set_reading()

    def _drop_frames(self) -> None:
        self.waiting.clear()
        self.waiting_bytes = 0
        self.frame = None
        self.rest = _NO_BUFFER
        self.reading_bytes = 0
        if self.held:
            self.memory.give(self, self.held)

    def _set_reading(self) -> None:
        has_enough = bool(self.rest) or self.waiting_bytes > WAITING_BYTES_MAX
        paused = self.server.is_stopping or self.waits_for_memory or has_enough or self.ended
        if paused != self.read_paused and not (self.closed or self.transport.is_closing()):
            self.read_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # what the server and the bounds on memory ask

    def is_idle(self, before_s: float) -> bool:
        """Whether no byte has been sent or received since `before_s`, and no request of a peer that reads is under way or waits."""
        waits_for_peer = self.write_paused or self.closed or self.ended
        if waits_for_peer:
            unsent = self.unsent_bytes()
            if unsent != self.unsent:
                self.unsent, self.moved_s = unsent, self.server.now_s
        return self.moved_s < before_s and (waits_for_peer or not (self.parked or self.waits_for_memory))

    @property
    def missing(self) -> int:
        """Bytes until the frame under way is complete; 0 when none is."""
        return 0 if self.frame is None else len(self.frame) - self.filled

    def unsent_bytes(self) -> int:
        """Bytes of answers that the peer has not read."""
        return self.transport.get_write_buffer_size()

    def wait_for_memory(self, waits: bool) -> None:
        """Stop reading while memory for requests is short, or begin to read again."""
        self.waits_for_memory = waits
        self.since_s = self.server.now_s
        self._set_reading()

    def give_up(self, why: str) -> None:
        """Closes at once, without waiting for what is not sent."""
        log.warning("closing the connection from %s: %s", self.client_host, why)
        self.closed = True
        self.transport.abort()

    def pause_writing(self) -> None:
        """The peer reads slowly: take nothing more from it until it has."""
        self.write_paused = True
        self.server.answer_memory.take(self, self.transport.get_write_buffer_size(), self.server.now_s)

    def resume_writing(self) -> None:
        """The peer has read on."""
        self.write_paused = False
        self.moved_s = self.server.now_s
        self.server.answer_memory.give(self)
        self.go_on()
        self.write_out()

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next bytes go: the rest of the frame under way, or the shared buffer; and few of them while memory is short."""
        if self.frame is None:
            return self.server.short_receive_buffer if self.memory.is_short else self.server.receive_buffer
        return memoryview(self.frame)[self.filled : self.filled + SHORT_READ_BYTES if self.memory.is_short else None]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self.closed:
            return
        self.moved_s = self.server.now_s
        try:
            if self.frame is None:
                self._take_frames(self.server.receive_buffer[:nbytes])
            else:
                self._fill_frame(self.frame, nbytes)
        except (PeerError, StorageError, OSError) as error:
            self._refuse(error)
        if self.out:
            self.write_out()

    # frames

    def _take_frames(self, data: memoryview) -> None:
        at, end = 0, len(data)
        while end - at >= _SIZE_BYTES and not self.closed:
            if at and not self.server.pipelining.may_continue():
                self._keep(data[at:])
                return
            (size,) = _FRAME_SIZE.unpack_from(data, at)
            if not 0 < size <= self.server.frame_bytes_max:
                raise self._impossible(size)
            if at + _SIZE_BYTES + size > end:
                break
            self._take_frame(data[at + _SIZE_BYTES : at + _SIZE_BYTES + size])
            at += _SIZE_BYTES + size
        if at < end and not self.closed:
            self._begin_frame(data[at:])

    def _begin_frame(self, part: memoryview) -> None:
        # Fewer than four bytes do not tell the size yet: a frame of four is begun, and grows when they are there.
        size = self._frame_size(part[:_SIZE_BYTES]) if len(part) >= _SIZE_BYTES else 0
        self.frame = unwritten_buffer(_SIZE_BYTES + size)
        self.frame[: len(part)] = part
        self.filled = len(part)
        self.since_s = self.server.now_s
        self.memory.take(self, len(part))

    def _fill_frame(self, frame: bytearray, size: int) -> None:
        self.filled += size
        if self.filled < len(frame):
            self.memory.take(self, size)
            return
        self.frame = None
        self.memory.give(self, self.filled - size)
        if len(frame) == _SIZE_BYTES:
            self._begin_frame(memoryview(frame))
        else:
            self._take_frame(memoryview(frame)[_SIZE_BYTES:])

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
        has_buffer_of_its_own = len(frame) + _SIZE_BYTES == len(cast(bytearray, frame.obj))
        self.waiting.append(frame if has_buffer_of_its_own else bytearray(frame))
        size = len(frame) + WAITING_FRAME_BYTES
        if self.waiting_bytes + size <= WAITING_BYTES_FREE:
            self.waiting_bytes += size
            return
        self._count_waiting(size)
        if self.waiting_bytes > WAITING_BYTES_MAX:
            self._set_reading()

    def _count_waiting(self, size: int) -> None:
        """So many bytes more wait, or less. The memory of all connections counts those beyond what is free: most clients stay below."""
        before = self.waiting_bytes
        after = self.waiting_bytes = before + size
        counted = max(after - WAITING_BYTES_FREE, 0) - max(before - WAITING_BYTES_FREE, 0)
        if counted > 0:
            self.memory.take(self, counted)
        else:
            self.memory.give(self, -counted)

    def _keep(self, rest: memoryview) -> None:
        """Keeps requests for later iterations of the loop; until they are handled, nothing more is read."""
        self.rest = memoryview(bytearray(rest))
        self.memory.take(self, len(rest))
        self._set_reading()
        self._defer()

    def _defer(self) -> None:
        if not self.deferred:
            self.deferred = True
            self.server.pipelining.defer(self)

    def continue_frames(self) -> None:
        """Handles requests that were deferred."""
        self.deferred = False
        self.go_on()
        self.write_out()

    def go_on(self) -> None:
        """Takes the frames that wait, as far as nothing holds them back any more; what they are answered is still to be written."""
        is_first = True
        while (self.rest or (self.waiting and not self.parked)) and not (self.write_paused or self.closed):
            if not (is_first or self.server.pipelining.may_continue()):
                self._defer()
                break
            is_first = False
            try:
                if self.waiting and not self.parked:
                    frame = self.waiting.popleft()
                    size = len(frame) + WAITING_FRAME_BYTES
                    if self.waiting_bytes <= WAITING_BYTES_FREE:
                        self.waiting_bytes -= size
                    else:
                        self._count_waiting(-size)
                    self._handle(memoryview(frame))
                else:
                    rest, self.rest = self.rest, _NO_BUFFER
                    self.memory.give(self, len(rest))
                    self._take_frames(rest)
            except (PeerError, StorageError, OSError) as error:
                self._refuse(error)
            except Exception as error:  # noqa: BLE001 - it is logged, and closes this connection alone
                self._fail(error)
        if self.ended and not (self.closed or self._handles_more()):
            self._close()
        elif self.read_paused:
            self._set_reading()

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
            if request.reading is not None or request.held_bytes:
                self.reading_bytes = request.held_bytes or len(frame)
                self.memory.take(self, self.reading_bytes)

    def _answer(self, parts: list[Buffer]) -> None:
        assert self.parked, "a request was answered twice"
        self.parked = False
        self.request = None
        if self.reading_bytes:
            self.memory.give(self, self.reading_bytes)
            self.reading_bytes = 0
        if parts and not self.closed:
            self.out += parts
            self.out_bytes += sum(map(len, parts))
            if self.out_bytes > OUT_BYTES_MAX:
                self.write_out()
        if not self.handling:  # the answer to a parked request: whoever waited behind it may go on
            self.moved_s = self.server.now_s
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

    def _refuse(self, error: PeerError | StorageError | OSError) -> None:
        # A disk that fails where the answer has no place for it, no descriptor to load a message's module: the client tries again.
        log.warning("closing the connection from %s: %s", self.client_host, printable(str(error)))
        self._close()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, (PeerError, StorageError, OSError)):  # a request that was not finished when its frame was handled
            self._refuse(error)
            return
        # Our own bug: a client that is told nothing would wait for ever.
        log.error("closing the connection from %s: its request failed unexpectedly", self.client_host, exc_info=error)
        self._close()

    def _close(self) -> None:
        self.write_out()
        self.closed = True
        self._drop_frames()
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
    server.begin_ticking(loop)
    return server, sockets, int(sockets.sockets[0].getsockname()[1])
