"""What the connections of one listener share: the dispatcher, the bounds on memory, and the buffer that they read into."""

from typing import Final, Protocol

from ottla.broker.event_loop_batch import EventLoopBatch
from ottla.broker.network.connection_quotas import ConnectionQuotas
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.network.pipelining import Pipelining
from ottla.broker.network.request_memory import SHORT_READ_BYTES, RequestMemory
from ottla.broker.network.response_memory import ResponseMemory

RECEIVE_BYTES: Final = 256 * 1024
"""One read takes at most this much; all connections of a listener share the buffer."""


class OpenConnection(Protocol):
    """A connection, as the server sees it."""

    def is_idle(self, before_s: float) -> bool:
        """Whether it has neither sent nor received since `before_s`."""
        ...

    def stop_reading(self) -> None:
        """Take no more requests."""

    def give_up(self, why: str) -> None:
        """Close at once, and log why."""

    def close(self) -> None:
        """Write the responses that are there, and close at once."""


class Listener:
    """Connections add and remove themselves. `now_s`: the loop's time as of the last tick, a second's precision, at no cost."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        quotas: ConnectionQuotas,
        frame_bytes_max: int,
        event_loop_batch: EventLoopBatch,
        pipelining: Pipelining,
        request_memory: RequestMemory,
        response_memory: ResponseMemory,
    ) -> None:
        self.dispatcher = dispatcher
        self.quotas = quotas
        self.frame_bytes_max = frame_bytes_max
        self.event_loop_batch = event_loop_batch
        self.pipelining = pipelining
        self.request_memory = request_memory
        self.response_memory = response_memory
        self.connections: set[OpenConnection] = set()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.short_receive_buffer = self.receive_buffer[:SHORT_READ_BYTES]
        self.now_s = 0.0
        self.is_stopping = False
