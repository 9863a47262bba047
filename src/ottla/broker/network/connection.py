"""One connection: bytes in, frames out, responses back, one request at a time, as in Kafka; and the connections of a listener.

A connection only moves bytes. A frame of which a part arrives is read straight into its own buffer; others are handled in the buffer that
the socket filled. While a request waits for its response (a parked JoinGroup, a long poll), or the peer does not read, later frames wait,
up to a bound. Responses that are ready at the end of a read, or of an iteration of the event loop, share one write.

A listener's connections are accepted, closed when they are idle, and closed when the broker stops.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, cast

from ottla.broker.network.dispatch import Dispatcher, NotServed
from ottla.broker.network.limits import ConnectionQuotas, Descriptors, RepeatedWarning
from ottla.broker.network.memory import SHORT_READ_BYTES, RequestMemory, ResponseMemory, unwritten_buffer
from ottla.broker.network.request import Authorizer, Endpoint, Request, Session
from ottla.broker.network.scheduling import EventLoopBatch, Pipelining
from ottla.config import FIXED_VALUES, BrokerConfig
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.wire.primitives import Buffer
from ottla.text import printable

log = logging.getLogger(__name__)

WAITING_BYTES_MAX: Final = 1024 * 1024
"""Frames that wait behind a parked request: beyond this the socket is not read."""
WAITING_BYTES_FREE: Final = 16 * 1024
"""Of them, so many are not counted among the requests of all connections."""
WAITING_FRAME_BYTES: Final = 128
"""Memory of a waiting frame beside its bytes: the smallest frames have fewer bytes than this."""
UNSENT_BYTES_MAX: Final = 16 * 1024
"""So much may be unsent before the peer's next request waits too, and its responses count (`ResponseMemory`)."""
OUT_BYTES_MAX: Final = 64 * 1024
"""So many bytes of responses wait for those that follow; then they are written, and a peer that reads slowly is noticed."""

_FRAME_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = 4
_NO_BUFFER: Final = memoryview(b"")
_OTHER_PROTOCOLS: Final = {
    b"\x16\x03": ": these bytes begin a handshake of TLS, which this listener does not speak (security.protocol of the client)",
    b"\x15\x03": ": these bytes are an alert of TLS, which this listener does not speak (security.protocol of the client)",
    b"GET ": ": these bytes are HTTP",
    b"POST": ": these bytes are HTTP",
}
"""What other protocols begin with, read as a size."""
AUTHENTICATION_S: Final = 10.0
"""A handshake of TLS takes no longer, nor does SASL; Kafka would wait for connections.max.idle.ms."""
GIVE_UP_LINES: Final = 100
"""So many connections that are closed for their peers' fault are named in the log in a minute."""
PENDING_MAX: Final = 1_000
"""So many connections of a listener may be unauthenticated at one time; the next one closes the oldest of them."""


RECEIVE_BYTES: Final = 256 * 1024
"""One read takes at most this much; all connections of a listener share the buffer."""

TICK_S: Final = 1.0
IDLE_CHECK_S_MAX: Final = 10.0
IDLE_CHECKS: Final = 4
"""So many checks for idle connections within connections.max.idle.ms, and one every ten seconds at least."""
_BACKLOG: Final = int(FIXED_VALUES["socket.listen.backlog.size"])


class Listener:
    """What the connections of one listener of one broker share. They add and remove themselves. `name`, `endpoint` and `authorizer` are for
    their sessions. `now_s`: the loop's time as of the last tick, a second's precision, at no cost. `must_authenticate`: its connections
    are pending, and bounded in number and time, until TLS and SASL are done.
    """

    def __init__(
        self,
        *,
        name: str,
        endpoint: Callable[[int], Endpoint | None],
        authorizer: Authorizer | None,
        dispatcher: Dispatcher,
        quotas: ConnectionQuotas,
        frame_bytes_max: int,
        event_loop_batch: EventLoopBatch,
        pipelining: Pipelining,
        request_memory: RequestMemory,
        response_memory: ResponseMemory,
        must_authenticate: bool = False,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.authorizer = authorizer
        self.dispatcher = dispatcher
        self.quotas = quotas
        self.frame_bytes_max = frame_bytes_max
        self.event_loop_batch = event_loop_batch
        self.pipelining = pipelining
        self.request_memory = request_memory
        self.response_memory = response_memory
        self.connections: set[Connection] = set()
        self.must_authenticate = must_authenticate
        self.give_ups = RepeatedWarning(log, lines=GIVE_UP_LINES)
        self._pending: dict[Connection, float] = {}
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.short_receive_buffer = self.receive_buffer[:SHORT_READ_BYTES]
        self.now_s = 0.0
        self.is_stopping = False

    def begin_pending(self, connection: "Connection") -> None:
        """A connection is open, and not authenticated yet."""
        if len(self._pending) >= PENDING_MAX:
            next(iter(self._pending)).give_up(f"more than {PENDING_MAX} connections to {self.name} are not authenticated, this one longest")
        self._pending[connection] = self.now_s

    def end_pending(self, connection: "Connection") -> None:
        """A connection is authenticated, or closed."""
        self._pending.pop(connection, None)

    def close_pending(self) -> None:
        """Close connections that have not authenticated in time."""
        late = []
        for connection, since_s in self._pending.items():
            if self.now_s - since_s <= AUTHENTICATION_S:
                break
            late.append(connection)
        for connection in late:
            connection.give_up(f"it did not authenticate in {AUTHENTICATION_S:g} s")


class Connection(asyncio.BufferedProtocol):
    """One socket: asyncio's buffered protocol, so that a frame's bytes are copied once, to where they are read."""

    __slots__ = (
        "closed", "deferred", "ended", "filled", "frame", "frame_bytes_max", "handling", "held", "listener", "memory",
        "moved_s", "out", "out_bytes", "parked", "read_paused", "reading_bytes", "request", "rest", "session", "since_s", "transport",
        "unsent", "waiting", "waiting_bytes", "waits_for_memory", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport
    session: Session

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.memory = listener.request_memory
        self.frame_bytes_max = listener.frame_bytes_max
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
        listener = self.listener
        self.session = Session(listener.name, listener.endpoint, peer or None, listener.authorizer)
        if listener.is_stopping or not listener.quotas.admit(self.session.address, listener.now_s):
            self.closed = True
            self.transport.abort()
            return
        self.moved_s = listener.now_s
        self.transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        listener.connections.add(self)
        if listener.must_authenticate:
            listener.begin_pending(self)

    def eof_received(self) -> bool:
        """The peer sends no more, and may have closed. Its earlier requests with acks=0 are handled all the same: they need no peer."""
        self.ended = self._handles_more()
        return self.ended

    def _handles_more(self) -> bool:
        """Whether there are requests that can be handled without a peer: none of them waits for a response to be written or read."""
        return bool(self.waiting or self.rest) and not self.write_paused and (self.request is None or self.request.is_one_way)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed: later responses are dropped."""
        self.closed = True
        self._drop_frames()
        self.listener.response_memory.release(self)
        self.out.clear()
        self.listener.end_pending(self)
        if self in self.listener.connections:
            self.listener.connections.remove(self)
            self.listener.quotas.leave(self.session.address)
        if self.request is not None:
            self.request.on_disconnect()
            self.request = None

    def stop_reading(self) -> None:
        """Drop the requests of this peer that are not handled yet: the broker stops."""
        self._drop_frames()
        self._set_reading()

    def _drop_frames(self) -> None:
        self.waiting.clear()
        self.waiting_bytes = 0
        self.frame = None
        self.rest = _NO_BUFFER
        self.reading_bytes = 0
        if self.held:
            self.memory.release(self, self.held)

    def _set_reading(self) -> None:
        has_enough = bool(self.rest) or self.waiting_bytes > WAITING_BYTES_MAX
        paused = self.listener.is_stopping or self.waits_for_memory or has_enough or self.ended
        if paused != self.read_paused and not (self.closed or self.transport.is_closing()):
            self.read_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # calls of the server and the memory bounds

    def is_idle(self, before_s: float) -> bool:
        """Whether no byte has been sent or received since `before_s`, and no request of a peer that reads is under way or waits."""
        waits_for_peer = self.write_paused or self.closed or self.ended
        if waits_for_peer:
            unsent = self.unsent_bytes()
            if unsent != self.unsent:
                self.unsent, self.moved_s = unsent, self.listener.now_s
        return self.moved_s < before_s and (waits_for_peer or not (self.parked or self.waits_for_memory))

    @property
    def missing(self) -> int:
        """Bytes until the frame under way is complete; 0 when none is."""
        return 0 if self.frame is None else len(self.frame) - self.filled

    def unsent_bytes(self) -> int:
        """Bytes of responses that the peer has not read."""
        return self.transport.get_write_buffer_size()

    def wait_for_memory(self, waits: bool) -> None:
        """Stop reading while memory for requests is short, or start again."""
        self.waits_for_memory = waits
        self.since_s = self.listener.now_s
        self._set_reading()

    def give_up(self, why: str) -> None:
        """Close at once, without waiting for unsent bytes."""
        self.listener.give_ups.warning(self.listener.now_s, f"closing the connection from {self.session.client_host}: {why}")
        self.listener.end_pending(self)
        self.closed = True
        self.transport.abort()

    def close(self) -> None:
        """Write the responses that are there, and close at once."""
        self.write_responses()
        self.transport.abort()

    def pause_writing(self) -> None:
        """The peer reads slowly: take no more requests from it until it has read."""
        self.write_paused = True
        self.listener.response_memory.take(self, self.transport.get_write_buffer_size(), self.listener.now_s)

    def resume_writing(self) -> None:
        """The peer has read enough: take requests again."""
        self.write_paused = False
        self.moved_s = self.listener.now_s
        self.listener.response_memory.release(self)
        self.resume()
        self.write_responses()

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next bytes go: the rest of the frame under way, or the shared buffer; and few of them while memory is short."""
        if self.frame is None:
            return self.listener.short_receive_buffer if self.memory.is_short else self.listener.receive_buffer
        return memoryview(self.frame)[self.filled : self.filled + SHORT_READ_BYTES if self.memory.is_short else None]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived."""
        if self.closed:
            return
        self.moved_s = self.listener.now_s
        try:
            if self.frame is None:
                self._take_frames(self.listener.receive_buffer[:nbytes])
            else:
                self._fill_frame(self.frame, nbytes)
        except (PeerError, StorageError, OSError) as error:
            self._refuse(error)
        if self.out:
            batch = self.listener.event_loop_batch
            if batch.is_ordered:
                batch.write_behind(self)
            else:
                self.write_responses()

    # frames

    def _take_frames(self, data: memoryview) -> None:
        listener, at, end = self.listener, 0, len(data)
        while end - at >= _SIZE_BYTES and not self.closed:
            if at and not listener.pipelining.may_continue():
                self._keep(data[at:])
                return
            (size,) = _FRAME_SIZE.unpack_from(data, at)
            if not 0 < size <= self.frame_bytes_max:
                raise self._impossible(size)
            begin = at + _SIZE_BYTES
            after = begin + size
            if after > end:
                break
            self._take_frame(data[begin:after])
            at = after
        if at < end and not self.closed:
            self._begin_frame(data[at:])

    def _begin_frame(self, part: memoryview) -> None:
        # Fewer than four bytes do not contain the size yet: start a frame of four, which grows when they are there.
        size = self._frame_size(part[:_SIZE_BYTES]) if len(part) >= _SIZE_BYTES else 0
        self.frame = unwritten_buffer(_SIZE_BYTES + size)
        self.frame[: len(part)] = part
        self.filled = len(part)
        self.since_s = self.listener.now_s
        self.memory.take(self, len(part))

    def _fill_frame(self, frame: bytearray, size: int) -> None:
        self.filled += size
        if self.filled < len(frame):
            self.memory.take(self, size)
            return
        self.frame = None
        self.memory.release(self, self.filled - size)
        if len(frame) == _SIZE_BYTES:
            self._begin_frame(memoryview(frame))
        else:
            self._take_frame(memoryview(frame)[_SIZE_BYTES:])

    def _frame_size(self, prefix: Buffer) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 < size <= self.frame_bytes_max:
            raise self._impossible(size)
        return size

    def _impossible(self, size: int) -> PeerError:
        setting = "socket.request.max.bytes" if self.frame_bytes_max == self.listener.frame_bytes_max else "sasl.server.max.receive.size"
        hint = next((what for first, what in _OTHER_PROTOCOLS.items() if size.to_bytes(4, "big", signed=True).startswith(first)), "")
        return PeerError(f"a frame of {size} bytes; allowed are 1 to {self.frame_bytes_max} ({setting}){hint}")

    def _take_frame(self, frame: memoryview) -> None:
        if not (self.parked or self.write_paused or self.waiting):
            self._handle(frame)
            return
        has_buffer_of_its_own = len(frame) + _SIZE_BYTES == len(frame.obj)  # type: ignore[arg-type]
        self.waiting.append(frame if has_buffer_of_its_own else bytearray(frame))
        size = len(frame) + WAITING_FRAME_BYTES
        if self.waiting_bytes + size <= WAITING_BYTES_FREE:
            self.waiting_bytes += size
            return
        self._count_waiting(size)
        if self.waiting_bytes > WAITING_BYTES_MAX:
            self._set_reading()

    def _count_waiting(self, size: int) -> None:
        """Count `size` more bytes that wait (fewer when negative); the memory of all connections counts those above WAITING_BYTES_FREE."""
        before = self.waiting_bytes
        after = self.waiting_bytes = before + size
        counted = max(after - WAITING_BYTES_FREE, 0) - max(before - WAITING_BYTES_FREE, 0)
        if counted > 0:
            self.memory.take(self, counted)
        else:
            self.memory.release(self, -counted)

    def _keep(self, rest: memoryview) -> None:
        """Keep requests for later iterations of the event loop; until they are handled, the connection is not read."""
        self.rest = memoryview(bytearray(rest))
        self.memory.take(self, len(rest))
        self._set_reading()
        self._defer()

    def _defer(self) -> None:
        if not self.deferred:
            self.deferred = True
            self.listener.pipelining.defer(self)

    def continue_frames(self) -> None:
        """Handle requests that were deferred."""
        self.deferred = False
        self.resume()
        self.write_responses()

    def resume(self) -> None:
        """Handle the waiting frames until one must wait longer; their responses are written later."""
        is_first = True
        while (self.rest or (self.waiting and not self.parked)) and not (self.write_paused or self.closed):
            if not (is_first or self.listener.pipelining.may_continue()):
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
                    self.memory.release(self, len(rest))
                    self._take_frames(rest)
            except (PeerError, StorageError, OSError) as error:
                self._refuse(error)
            except Exception as error:  # noqa: BLE001 - it is logged, and closes this connection alone
                self._fail(error)
        if self.ended and not (self.closed or self._handles_more()):
            self._close()
        elif self.read_paused:
            self._set_reading()

    # requests and responses

    def _handle(self, frame: memoryview) -> None:
        dispatcher = self.listener.dispatcher
        api, request = dispatcher.read_request(frame, self.session)
        request.send = self._answer
        request.fail = self._fail
        self.request = request
        self.parked = self.handling = True
        try:
            dispatcher.dispatch(api, request)
        finally:
            self.handling = False
            request.buffer = _NO_BUFFER  # thousands may be parked
            if request.reading is not None or request.held_bytes:
                self.reading_bytes = request.held_bytes or len(frame)
                self.memory.take(self, self.reading_bytes)

    def _answer(self, parts: list[Buffer]) -> None:
        assert self.parked, "a request was answered twice"
        throttle_ms = 0 if self.request is None else self.request.throttle_ms
        self.parked = throttle_ms > 0
        self.request = None
        if self.reading_bytes:
            self.memory.release(self, self.reading_bytes)
            self.reading_bytes = 0
        if parts and not self.closed:
            self.out += parts
            for part in parts:
                self.out_bytes += len(part)
            if self.out_bytes > OUT_BYTES_MAX:
                self.write_responses()
        if throttle_ms:
            asyncio.get_running_loop().call_later(throttle_ms / 1000, self._unmute)
        if not self.handling:  # the response to a parked request: the requests behind it may be handled
            self.moved_s = self.listener.now_s
            self.listener.event_loop_batch.resume_later(self)

    def _unmute(self) -> None:
        """Handle requests again: the throttle time of the last response is over."""
        self.parked = False
        self.moved_s = self.listener.now_s
        if not self.closed:
            self.listener.event_loop_batch.resume_later(self)

    def write_responses(self) -> None:
        """Write the responses that are there."""
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
        # A disk that fails where the response has no field for it, no descriptor to load a message's module: the client tries again.
        if not isinstance(error, NotServed):
            log.warning("closing the connection from %s: %s", self.session.client_host, printable(str(error)))
        self._close()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, (PeerError, StorageError, OSError)):  # a request that was not finished when its frame was handled
            self._refuse(error)
            return
        # Our own bug: without a response the client would wait until its timeout.
        log.error("closing the connection from %s: its request failed unexpectedly", self.session.client_host, exc_info=error)
        self._close()

    def _close(self) -> None:
        self.write_responses()
        self.closed = True
        self._drop_frames()
        self.transport.close()


class ListenerSecurity(Protocol):
    """TLS and SASL of a listener."""

    def connection(self, listener: Listener) -> asyncio.BaseProtocol:
        """A protocol for a new socket."""
        ...

    def reload(self) -> None:
        """Read certificates again that have changed."""
        ...


class Server(Listener):
    """`start`, then `stop_reading` and `stop`."""

    def __init__(
        self,
        *,
        name: str,
        endpoint: Callable[[int], Endpoint | None],
        authorizer: Authorizer | None,
        dispatcher: Dispatcher,
        config: BrokerConfig,
        quotas: ConnectionQuotas,
        descriptors: Descriptors,
        event_loop_batch: EventLoopBatch,
        pipelining: Pipelining,
        request_memory: RequestMemory,
        response_memory: ResponseMemory,
        security: ListenerSecurity | None = None,
    ) -> None:
        super().__init__(
            name=name,
            endpoint=endpoint,
            authorizer=authorizer,
            dispatcher=dispatcher,
            quotas=quotas,
            frame_bytes_max=config.number("socket.request.max.bytes"),
            event_loop_batch=event_loop_batch,
            pipelining=pipelining,
            request_memory=request_memory,
            response_memory=response_memory,
            must_authenticate=security is not None,
        )
        self._security = security
        self.idle_s = config.number("connections.max.idle.ms") / 1000
        self._descriptors = descriptors
        self._idle_check_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sockets: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> int:
        """Accept connections (port 0: any free one). Returns the port."""
        loop = asyncio.get_running_loop()
        self._sockets = sockets = await loop.create_server(self.connection, host, port, backlog=_BACKLOG)
        self._tick_again(loop)
        return int(sockets.sockets[0].getsockname()[1])

    def connection(self) -> asyncio.BaseProtocol:
        """A protocol for a new socket."""
        return Connection(self) if self._security is None else self._security.connection(self)

    def _tick_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call `tick` once a second until the server stops."""
        self._timer = loop.call_later(TICK_S, self._tick_again, loop)
        self.tick(loop.time())

    def tick(self, now_s: float) -> None:
        """Close connections that are idle, or hold memory that others wait for. Called once a second."""
        self.now_s = now_s
        self.request_memory.tick(now_s)
        self.response_memory.tick(now_s)
        self.close_pending()
        if now_s >= self._idle_check_s:
            self._idle_check_s = now_s + min(self.idle_s / IDLE_CHECKS, IDLE_CHECK_S_MAX)
            self._descriptors.check()
            if self._security is not None:
                self._security.reload()
            if self.idle_s >= 0:
                for connection in [connection for connection in self.connections if connection.is_idle(now_s - self.idle_s)]:
                    connection.give_up(f"nothing was sent or received for {self.idle_s:g} s (connections.max.idle.ms)")

    def stop_reading(self) -> None:
        """Take no more connections or requests; requests under way may still be answered."""
        if self._sockets is not None:
            self._sockets.close()
        self.is_stopping = True
        for connection in self.connections:
            connection.stop_reading()

    def stop(self) -> None:
        """Close every connection at once; requests that wait are dropped."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.close()
