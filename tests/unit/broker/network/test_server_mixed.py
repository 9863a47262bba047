"""Connections under everything at once, by seed: cut and pipelined frames, requests that wait, peers that read slowly, too little memory.

Whatever comes in which order, every request is answered, in its connection's order, and nothing is held at the end.
"""

import asyncio
import struct
from random import Random
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.broker.network.connection import Connection
from ottla.broker.network.pipelining import Pipelining
from ottla.broker.network.request_memory import RequestMemory
from ottla.broker.protocol.api import ServedApi
from ottla.broker.protocol.request import Request
from ottla.core.config import BrokerConfig
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.memory_files import MemoryFiles

SEEDS = 200
STEPS = 400
CONNECTIONS = 6
MEMORY_BYTES = 8_000
UNSENT_BYTES_MAX = 300


class Socket(asyncio.Transport):
    """Both ends of a connection: `sent` is on its way to the broker, `received` has come back, and what is `unsent` waits for the peer."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.connection: Connection
        self.sent = bytearray()
        self.received = bytearray()
        self.unsent = bytearray()
        self.asked: list[int] = []
        self.has_ended = self.is_read = self.is_closed = self.is_lost = self.is_full = False
        self.is_read = True
        self.is_one_way = world.random.random() < 0.3
        self.connection = world.server.connection()
        self.connection.connection_made(self)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def write(self, data: Any) -> None:
        self.unsent += data
        if not self.is_full and len(self.unsent) > UNSENT_BYTES_MAX:
            self.is_full = True
            self.connection.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        raise AssertionError("no connection here is too slow")

    # the peer's side

    def take(self, size: int) -> None:
        """The peer reads."""
        self.received += self.unsent[:size]
        del self.unsent[:size]
        if self.is_full and not self.unsent:
            self.is_full = False
            self.connection.resume_writing()

    def deliver(self, size: int) -> None:
        """Some of what was sent arrives, if it is read; at its end, the end."""
        if not self.is_read or self.is_closed or self.is_lost:
            return
        if self.sent:
            buffer = memoryview(self.connection.get_buffer(-1))
            size = min(len(buffer), len(self.sent), size)
            buffer[:size] = self.sent[:size]
            del self.sent[:size]
            self.connection.buffer_updated(size)
        elif self.has_ended:
            self.is_read = False
            if not self.connection.eof_received():
                self.close()

    def lose(self) -> None:
        if not self.is_closed:
            self.is_lost = self.is_closed = True
            self.connection.connection_lost(None)

    def answers(self) -> list[int]:
        found, at = [], 0
        while at < len(self.received):
            size, number = struct.unpack_from(">ii", self.received, at)
            found.append(number)
            at += 4 + size
        assert at == len(self.received)
        return found


class World:
    """A server, whose handler answers when the test says so."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        cluster = Components(MemoryFiles(), BrokerConfig(), clock=lambda: 1)
        self.server = cluster.server(cluster.brokers.nodes[1])
        self.dispatcher, self.server.dispatcher = self.server.dispatcher, self
        self.server.request_memory = RequestMemory(MEMORY_BYTES)
        self.time_s = 0.0
        self.server.pipelining = Pipelining(self.clock)
        self.parked: list[Request] = []
        self.number = 0
        self.handled: list[int] = []
        self.sockets = [Socket(self) for _ in range(CONNECTIONS)]

    def clock(self) -> float:
        self.time_s += 0.0003
        return self.time_s

    def read_request(self, frame: memoryview, client_host: str) -> tuple[ServedApi, Request]:
        return self.dispatcher.read_request(frame, client_host)

    def dispatch(self, _api: object, request: Request) -> None:
        self.handled.append(request.correlation_id)
        request.is_one_way = next(socket for socket in self.sockets if request.correlation_id in socket.asked).is_one_way
        if self.random.random() < 0.7:
            self.reply(request)
            return
        request.held_bytes = self.random.choice((0, len(request.buffer)))
        self.parked.append(request)

    def reply(self, request: Request) -> None:
        if request.is_one_way:
            request.no_reply()
        else:
            request.reply_body([bytes(self.random.choice((0, 10, 400)))])

    def answer(self) -> None:
        if self.parked:
            self.reply(self.parked.pop(self.random.randrange(len(self.parked))))

    def ask(self, socket: Socket) -> None:
        if socket.has_ended:
            return
        for _ in range(self.random.choice((1, 1, 5, 40))):
            self.number += 1
            client_id = bytes(self.random.choice((0, 3, 100, 3000)))
            head = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, self.number, len(client_id))
            socket.sent += struct.pack(">i", len(head) + len(client_id)) + head + client_id
            socket.asked.append(self.number)

    async def step(self) -> None:
        socket, random = self.random.choice(self.sockets), self.random
        match random.randrange(12):
            case 0 | 1:
                self.ask(socket)
            case 2 | 3 | 4 | 5:
                socket.deliver(random.choice((1, 3, 5, 50, 5000, 1 << 20)))
            case 6 | 7:
                self.answer()
            case 8:
                socket.take(random.choice((10, 1000)))
            case 9:
                self.server.tick(self.server.now_s + 0.01)
            case 10:
                if random.random() < 0.05:
                    socket.lose()
                elif random.random() < 0.1:
                    socket.has_ended = True
            case _:
                await asyncio.sleep(0)

    async def finish(self) -> None:
        """All that was sent arrives, and all that waits is answered, one after the other."""
        for _ in range(20 * self.number + 200):
            for socket in self.sockets:
                socket.deliver(1 << 20)
                socket.take(1 << 20)
            self.answer()
            self.server.tick(self.server.now_s + 0.0001)
            await asyncio.sleep(0)
            if not self.parked and all(self.is_done(socket) for socket in self.sockets):
                break
        for socket in self.sockets:
            socket.deliver(1)
            socket.take(1 << 20)
        for _ in range(3):
            await asyncio.sleep(0)

    def handled_of(self, socket: Socket) -> list[int]:
        numbers = set(socket.asked)
        return [number for number in self.handled if number in numbers]

    def is_done(self, socket: Socket) -> bool:
        return socket.is_closed or self.handled_of(socket) == socket.asked

    def check(self) -> None:
        memory = self.server.request_memory
        for socket in self.sockets:
            connection = socket.connection
            assert (connection.held, connection.waiting_bytes, connection.reading_bytes) == (0, 0, 0)
            if socket.is_lost:
                continue
            handled = self.handled_of(socket)
            assert handled == socket.asked[: len(handled)]
            assert socket.is_closed == socket.has_ended
            if socket.is_one_way or not socket.has_ended:
                assert len(handled) == len(socket.asked), "also those of a peer that has gone, and expects no answer"
            if not socket.has_ended:
                assert socket.answers() == ([] if socket.is_one_way else socket.asked)
                assert socket.is_read, "it is read again"
        assert (memory.held, memory.is_short, self.server.response_memory.held) == (0, False, 0)
        assert (len(memory._senders), len(memory._waiting), len(memory._preferred)) == (0, 0, 0)
        assert len(self.handled) == len(set(self.handled)), "none was handled twice"


async def live(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        await world.step()
    await world.finish()
    try:
        world.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_every_request_is_answered_in_order_and_nothing_is_held_at_the_end(first: int) -> None:
    for seed in range(first, first + 50):
        asyncio.run(live(seed))
