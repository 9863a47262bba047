"""The connections of one listener: accepted, closed when they are idle, and closed when the broker stops."""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.broker.network.connection import Connection, Listener
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.network.limits import ConnectionQuotas, Descriptors
from ottla.broker.network.memory import RequestMemory, ResponseMemory
from ottla.broker.network.scheduling import EventLoopBatch, Pipelining
from ottla.broker.network.session import Authorizer, Endpoint
from ottla.config import FIXED_VALUES, BrokerConfig

TICK_S: Final = 1.0
IDLE_CHECK_S_MAX: Final = 10.0
IDLE_CHECKS: Final = 4
"""So many checks for idle connections within connections.max.idle.ms, and one every ten seconds at least."""
_BACKLOG: Final = int(FIXED_VALUES["socket.listen.backlog.size"])


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
        )
        self.idle_s = config.number("connections.max.idle.ms") / 1000
        self._descriptors = descriptors
        self._idle_check_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sockets: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> int:
        """Accept connections (port 0: any free one). Returns the port."""
        loop = asyncio.get_running_loop()
        factory: Callable[[], asyncio.BaseProtocol] = self.connection
        self._sockets = sockets = await loop.create_server(factory, host, port, backlog=_BACKLOG)
        self._tick_again(loop)
        return int(sockets.sockets[0].getsockname()[1])

    def connection(self) -> Connection:
        """A protocol for a new socket."""
        return Connection(self)

    def _tick_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call `tick` once a second until the server stops."""
        self._timer = loop.call_later(TICK_S, self._tick_again, loop)
        self.tick(loop.time())

    def tick(self, now_s: float) -> None:
        """Close connections that are idle, or hold memory that others wait for. Called once a second."""
        self.now_s = now_s
        self.request_memory.tick(now_s)
        self.response_memory.tick(now_s)
        if now_s >= self._idle_check_s:
            self._idle_check_s = now_s + min(self.idle_s / IDLE_CHECKS, IDLE_CHECK_S_MAX)
            self._descriptors.check()
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
