"""A server's life: it accepts, takes no more requests, and closes what is open, what is idle, and what takes too much."""

import asyncio
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.broker.clock import monotonic_s
from ottla.broker.composition import Components
from ottla.broker.network.connection import WAITING_BYTES_FREE, WAITING_FRAME_BYTES, Connection, Server
from ottla.broker.network.dispatch import Dispatcher, MissingFeatures
from ottla.broker.network.limits import ConnectionLimits, ConnectionQuotas, Descriptors
from ottla.broker.network.memory import RequestMemory, ResponseMemory
from ottla.broker.network.request import Api, Request, ServedApi, Session
from ottla.broker.network.scheduling import EventLoopBatch, Pipelining, RequestScheduler
from ottla.config import BrokerConfig
from ottla.config.listeners import ListenerConfig
from ottla.log.file_system import MemoryFiles
from ottla.metadata.resource_configs import ResourceConfigs
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.processes import resident_bytes

API_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\xff\xff"


def answer(request: Request) -> None:
    request.reply_body([b"ok"])


@pytest.fixture
def server() -> Server:
    api = Api(key=ApiKey.API_VERSIONS, versions=range(1), handle=answer, access=()).bind({})
    return Server(
        dispatcher=Dispatcher({api.key: api}, RequestScheduler(), MissingFeatures(monotonic_s)),
        config=BrokerConfig(),
        name="PLAINTEXT",
        endpoint=lambda _: None,
        authorizer=None,
        quotas=ConnectionQuotas(ConnectionLimits(ResourceConfigs(1, BrokerConfig().text)), Descriptors(None, 0)),
        descriptors=Descriptors(None, 0),
        event_loop_batch=EventLoopBatch(),
        pipelining=Pipelining(),
        request_memory=RequestMemory(1 << 20),
        response_memory=ResponseMemory(),
    )


def test_it_serves_until_it_stops(server: Server) -> None:
    async def live() -> None:
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(API_VERSIONS)
        assert await reader.readexactly(10) == b"\0\0\0\6\0\0\0\7ok"
        server.stop_reading()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(API_VERSIONS)
        await asyncio.sleep(0.05)
        assert len(server.connections) == 1, "it is open, and is not read"
        server.stop()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        assert not server.connections
        writer.close()

    asyncio.run(live())


def test_a_port_that_is_taken(server: Server) -> None:
    async def live() -> None:
        port = await server.start("127.0.0.1", 0)
        with pytest.raises(OSError):
            await server.start("127.0.0.1", port)
        server.stop_reading()
        server.stop()

    asyncio.run(live())


# What connections may take: memory as bytes come, time without a byte, their number. Transports are fakes, and time is given.

METADATA = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)


class Transport(asyncio.Transport):
    def __init__(self, address: str = "10.0.0.1") -> None:
        super().__init__()
        self.address = address
        self.written = bytearray()
        self.unsent = 0
        self.is_reading_ = True
        self.is_aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.address, 5) if name == "peername" else default

    def write(self, data) -> None:
        self.written += data

    def writelines(self, parts) -> None:
        self.written += b"".join(parts)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_ = False

    def resume_reading(self) -> None:
        self.is_reading_ = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    close = abort


class NoBatch(EventLoopBatch):
    """The test itself lets connections continue."""

    def resume_later(self, connection: object) -> None:
        pass


class NoPipelining(Pipelining):
    """One iteration of the loop lasts as long as the test."""

    def may_continue(self) -> bool:
        return True


def server_of(config: dict[str, str], now_s: Callable[[], float] = lambda: 0.0) -> Server:
    """`now_s` measures how long requests take: with this one none takes so long that it needs an event loop to go on."""
    cluster = Components(MemoryFiles(), BrokerConfig(config), clock=lambda: 1_700_000_000_000)
    cluster.scheduler = RequestScheduler(now_s)
    server = cluster.servers(cluster.brokers.nodes[1], [ListenerConfig("PLAINTEXT", "127.0.0.1", 0, None)])["PLAINTEXT"]
    server.event_loop_batch, server.pipelining = NoBatch(), NoPipelining()
    return server


def connected(server: Server, address: str = "10.0.0.1") -> tuple[Connection, Transport]:
    connection, transport = server.connection(), Transport(address)
    connection.connection_made(transport)
    return connection, transport


def send(connection: Connection, data: bytes) -> None:
    """As a loop does: as much as the buffer takes, as long as it reads."""
    while data:
        buffer = memoryview(connection.get_buffer(-1))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        connection.buffer_updated(size)
        data = data[size:]
        if not connection.transport.is_reading_:  # type: ignore[attr-defined]
            return


def test_a_connection_on_which_no_byte_moves_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    server = server_of({"connections.max.idle.ms": "60000"})
    server.tick(0.0)
    (_, silent), (half, half_sent), (busy, busy_one) = (connected(server) for _ in range(3))
    send(half, b"\0\0\1\0half")
    server.tick(50.0)
    send(busy, METADATA)
    server.tick(60.0)
    assert not silent.is_aborted
    server.tick(76.0)
    assert [each.is_aborted for each in (silent, half_sent, busy_one)] == [True, True, False]
    assert (
        caplog.messages
        == [
            "closing the connection from /10.0.0.1: nothing was sent or received for 60 s (connections.max.idle.ms)",
        ]
        * 2
    )
    half.connection_lost(None)
    assert server.request_memory.held == 0


def test_a_connection_whose_request_is_under_way_is_not_idle() -> None:
    server = server_of({"connections.max.idle.ms": "60000"})
    server.tick(0.0)
    connection, transport = connected(server)
    connection.parked = True
    server.tick(100.0)
    assert not transport.is_aborted
    connection._answer([b"answer"])
    server.tick(150.0)
    assert not transport.is_aborted, "it was answered at 100 s"
    server.tick(200.0)
    assert transport.is_aborted


def test_a_reader_that_takes_its_answer_slowly_is_not_idle() -> None:
    server = server_of({"connections.max.idle.ms": "60000"})
    server.tick(0.0)
    connection, transport = connected(server)
    connection.pause_writing()
    for second, transport.unsent in ((20.0, 5000), (50.0, 4000), (105.0, 4000)):
        server.tick(second)
    assert not transport.is_aborted, "it took some until 50 s"
    server.tick(126.0)
    assert transport.is_aborted


@pytest.mark.parametrize("holds", ["parked", "waits_for_memory"])
def test_a_peer_that_does_not_read_is_idle_whatever_its_requests_wait_for(holds: str) -> None:
    server = server_of({"connections.max.idle.ms": "60000"})
    server.tick(0.0)
    connection, transport = connected(server)
    setattr(connection, holds, True)
    connection.pause_writing()
    transport.unsent = 5000
    server.tick(20.0)
    server.tick(100.0)
    assert transport.is_aborted


def test_a_connection_that_failed_holds_nothing_and_is_closed_also_if_its_peer_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of({"connections.max.idle.ms": "60000"})
    server.tick(0.0)
    connection, transport = connected(server)
    monkeypatch.setattr(Transport, "close", lambda _self: None)
    connection.parked = True
    send(connection, METADATA * 10 + METADATA[:7])
    assert server.request_memory.held > 0
    connection._fail(ValueError("a mistake of ours"))
    assert server.request_memory.held == 0
    server.tick(61.0)
    server.tick(77.0)
    assert transport.is_aborted


def test_no_idle_time_is_no_bound() -> None:
    server = server_of({"connections.max.idle.ms": "-1"})
    _, transport = connected(server)
    server.tick(1e9)
    assert not transport.is_aborted


def test_no_more_of_one_address_than_allowed() -> None:
    server = server_of({"max.connections.per.ip": "2", "max.connections.per.ip.overrides": "10.0.0.2:1"})
    first, *others = (connected(server) for _ in range(3))
    assert [transport.is_aborted for _, transport in (first, *others)] == [False, False, True]
    assert [connected(server, "10.0.0.2")[1].is_aborted for _ in range(2)] == [False, True]
    for connection, _ in (others[1], first):  # the refused one, too, is lost
        connection.connection_lost(None)
    assert [connected(server)[1].is_aborted for _ in range(2)] == [False, True]


def test_above_the_bound_on_requests_connections_are_not_read_until_there_is_room() -> None:
    server = server_of({"queued.max.request.bytes": "1000000", "socket.request.max.bytes": "1000000"})
    peers = [connected(server) for _ in range(4)]
    for connection, _ in peers:
        send(connection, struct.pack(">i", 900_000) + bytes(500_000))
    assert server.request_memory.held <= 2 * 1_000_000
    assert not all(transport.is_reading_ for _, transport in peers)
    healthy, transport = connected(server)
    send(healthy, METADATA)
    assert transport.written, "a small request is read and answered"
    for connection, _ in peers:
        connection.connection_lost(None)
    assert server.request_memory.held == 0
    assert not server.request_memory.is_short


def test_a_stalled_request_makes_room_for_one_that_comes() -> None:
    server = server_of({"queued.max.request.bytes": "1000000", "socket.request.max.bytes": "1000000"})
    server.tick(0.0)
    stalled, stalled_transport = connected(server)
    send(stalled, struct.pack(">i", 990_000) + bytes(980_000))
    server.tick(9.0)
    coming, transport = connected(server)
    send(coming, struct.pack(">i", 600_000) + bytes(590_000))
    assert not transport.is_reading_
    server.tick(40.0)
    assert stalled_transport.is_aborted
    stalled.connection_lost(None)
    assert transport.is_reading_


def test_waiting_requests_count() -> None:
    server = server_of({})
    connection, _ = connected(server)
    connection.parked = True
    few = WAITING_BYTES_FREE // (len(METADATA) - 4 + WAITING_FRAME_BYTES)
    send(connection, METADATA * few)
    assert server.request_memory.held == 0
    send(connection, METADATA * 300)
    assert server.request_memory.held == (few + 300) * (len(METADATA) - 4 + WAITING_FRAME_BYTES) - WAITING_BYTES_FREE
    connection._answer([b"x"])
    connection.resume()
    assert server.request_memory.held == 0


def test_small_requests_that_wait_count_as_what_they_cost() -> None:
    server = server_of({})
    peers = [connected(server)[0] for _ in range(100)]
    before = resident_bytes()
    for connection in peers:
        connection.parked = True
        send(connection, METADATA * 20_000)
    grown, held = resident_bytes() - before, server.request_memory.held
    assert server.request_memory.is_short
    assert grown < 1.6 * held, "what is counted is what is there"


def test_a_large_request_counts_until_it_is_answered() -> None:
    server = server_of({}, monotonic_s)
    connection, _ = connected(server)
    names = 90_000 * (struct.pack(">h", 11) + b"n" * 11)

    async def ask() -> None:
        send(connection, struct.pack(">ihhihi", 14 + len(names), 15, 0, 7, -1, 90_000) + names)
        assert server.request_memory.held == len(names) + 14
        while connection.parked:
            await asyncio.sleep(0)

    asyncio.run(ask())
    assert server.request_memory.held == 0


def test_what_a_peer_does_not_take_counts_until_it_does() -> None:
    server = server_of({})
    memory = server.response_memory
    (connection, transport), (other, other_transport) = connected(server), connected(server)
    transport.unsent, other_transport.unsent = 50_000, 7_000
    connection.pause_writing()
    other.pause_writing()
    assert memory.held == 57_000
    connection.resume_writing()
    assert memory.held == 7_000
    other.connection_lost(None)
    assert memory.held == 0


def test_readers_that_take_nothing_are_closed_before_their_answers_are_too_much(caplog: pytest.LogCaptureFixture) -> None:
    server = server_of({})
    peers = [connected(server) for _ in range(30)]
    for connection, transport in peers:
        transport.unsent = 10_000_000
        connection.pause_writing()
    assert server.response_memory.held <= 2 * server.response_memory.bytes_max
    assert sum(transport.is_aborted for _, transport in peers) == 30 - 13
    assert "10000000 bytes of answers were not read in 0 s, and the memory for answers is used up" in caplog.text


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"message.max.bytes": "50000000"}) as running:
        yield running


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def test_slow_readers_of_a_large_batch_do_not_each_hold_a_copy(broker: Broker) -> None:
    host, port = broker.bootstrap_servers.split(":")
    batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(20_000_000))])
    writer = RawPeer(socket.create_connection((host, int(port)), timeout=60))
    assert writer.ask(ApiKey.METADATA, struct.pack(">i", 1) + string(b"t"), version=1)
    data = struct.pack(">hhii", -1, 1, 30_000, 1) + string(b"t") + struct.pack(">iii", 1, 0, len(batch)) + batch
    assert writer.ask(ApiKey.PRODUCE, data, version=7)[-30:-28] == b"\0\0"
    before = resident_bytes()
    ask = struct.pack(">iiiibi", -1, 500, 1, 50_000_000, 0, 1) + string(b"t") + struct.pack(">iiqi", 1, 0, 0, 50_000_000)
    readers = []
    for _ in range(15):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((host, int(port)))
        reader.sendall(struct.pack(">ihhih", 10 + len(ask), 1, 4, 7, -1) + ask)
        readers.append(reader)
    small = RawPeer(socket.create_connection((host, int(port)), timeout=60))
    for _ in range(3):  # the loop has taken what the others asked for
        assert small.ask(18, b"")
    assert resident_bytes() - before < 130_000_000
    served, _, _ = select.select(readers, [], [], 10)
    assert len(served) == 3, "so many have room, and the others wait"
    for reader in (*readers, writer.peer, small.peer):
        reader.close()


def test_a_head_that_claims_much_costs_nothing(broker: Broker) -> None:
    host, port = broker.bootstrap_servers.split(":")
    before = resident_bytes()
    peers = [socket.create_connection((host, int(port)), timeout=60) for _ in range(21)]
    for peer in peers[:20]:
        peer.sendall(struct.pack(">i", 100_000_000) + b"\0\0\0\3")
    peers[20].sendall(METADATA)  # the loop has read the others when it answers
    assert peers[20].recv(100)
    assert resident_bytes() - before < 100_000_000
    for peer in peers:
        peer.close()


def test_connections_leave_descriptors_for_all_else(tmp_path: Path) -> None:
    """More connections than descriptors before the first request: modules are still found, and logs are opened."""
    ottla = Path(sys.executable).with_name("ottla")
    command = f"ulimit -n 128; exec {ottla} broker --listen 127.0.0.1:0 --data {tmp_path / 'data'}"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, _, address = process.stdout.readline().strip().partition("=")
        host, port = address.split(":")
        peers = [socket.create_connection((host, int(port)), timeout=60) for _ in range(150)]
        accepted = [RawPeer(peer) for peer in peers[:64]]
        assert all(peer.ask(18, b"") for peer in accepted)
        assert peers[-1].recv(10) == b""
        created = accepted[0].ask(ApiKey.METADATA, struct.pack(">ih", 1, 5) + b"topic", version=1)
        assert b"topic" in created
        for peer in peers:
            peer.close()
        again = RawPeer(connect_until_accepted(host, int(port)))
        assert again.ask(ApiKey.METADATA, struct.pack(">ih", 1, 5) + b"topic", version=1)
        again.peer.close()
        process.terminate()
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert [line for line in errors.splitlines() if "Rejected connection" not in line] == []
    assert 1 <= errors.count("Rejected connection from 127.0.0.1: 64 connections are open") <= 2


class RawPeer:
    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer

    def ask(self, key: int, body: bytes, version: int = 0) -> bytes:
        self.peer.sendall(struct.pack(">ihhih", 10 + len(body), key, version, 7, -1) + body)
        return self.peer.recv(65536)


def connect_until_accepted(host: str, port: int) -> socket.socket:
    """The broker notices a little later that the others are closed."""
    while True:
        peer = socket.create_connection((host, port), timeout=60)
        try:
            if RawPeer(peer).ask(18, b""):
                return peer
        except ConnectionError:
            pass
        peer.close()


# Connections under everything at once, by seed: cut and pipelined frames, requests that wait, peers that read slowly, too little memory.
#
# Whatever comes in which order, every request is answered, in its connection's order, and nothing is held at the end.

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
        self.server = cluster.servers(cluster.brokers.nodes[1], [ListenerConfig("PLAINTEXT", "127.0.0.1", 0, None)])["PLAINTEXT"]
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

    def read_request(self, frame: memoryview, session: Session) -> tuple[ServedApi, Request]:
        return self.dispatcher.read_request(frame, session)

    def dispatch(self, _api: object, request: Request) -> None:
        self.handled.append(request.correlation_id)
        request.is_one_way = next(peer for peer in self.sockets if request.correlation_id in peer.asked).is_one_way
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

    def ask(self, peer: Socket) -> None:
        if peer.has_ended:
            return
        for _ in range(self.random.choice((1, 1, 5, 40))):
            self.number += 1
            client_id = bytes(self.random.choice((0, 3, 100, 3000)))
            head = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, self.number, len(client_id))
            peer.sent += struct.pack(">i", len(head) + len(client_id)) + head + client_id
            peer.asked.append(self.number)

    async def step(self) -> None:
        peer, random = self.random.choice(self.sockets), self.random
        match random.randrange(12):
            case 0 | 1:
                self.ask(peer)
            case 2 | 3 | 4 | 5:
                peer.deliver(random.choice((1, 3, 5, 50, 5000, 1 << 20)))
            case 6 | 7:
                self.answer()
            case 8:
                peer.take(random.choice((10, 1000)))
            case 9:
                self.server.tick(self.server.now_s + 0.01)
            case 10:
                if random.random() < 0.05:
                    peer.lose()
                elif random.random() < 0.1:
                    peer.has_ended = True
            case _:
                await asyncio.sleep(0)

    async def finish(self) -> None:
        """All that was sent arrives, and all that waits is answered, one after the other."""
        for _ in range(20 * self.number + 200):
            for peer in self.sockets:
                peer.deliver(1 << 20)
                peer.take(1 << 20)
            self.answer()
            self.server.tick(self.server.now_s + 0.0001)
            await asyncio.sleep(0)
            if not self.parked and all(self.is_done(peer) for peer in self.sockets):
                break
        for peer in self.sockets:
            peer.deliver(1)
            peer.take(1 << 20)
        for _ in range(3):
            await asyncio.sleep(0)

    def handled_of(self, peer: Socket) -> list[int]:
        numbers = set(peer.asked)
        return [number for number in self.handled if number in numbers]

    def is_done(self, peer: Socket) -> bool:
        return peer.is_closed or self.handled_of(peer) == peer.asked

    def check(self) -> None:
        memory = self.server.request_memory
        for peer in self.sockets:
            connection = peer.connection
            assert (connection.held, connection.waiting_bytes, connection.reading_bytes) == (0, 0, 0)
            if peer.is_lost:
                continue
            handled = self.handled_of(peer)
            assert handled == peer.asked[: len(handled)]
            assert peer.is_closed == peer.has_ended
            if peer.is_one_way or not peer.has_ended:
                assert len(handled) == len(peer.asked), "also those of a peer that has gone, and expects no answer"
            if not peer.has_ended:
                assert peer.answers() == ([] if peer.is_one_way else peer.asked)
                assert peer.is_read, "it is read again"
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
