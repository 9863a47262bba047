"""The fetch client's shell, with connections that answer as told, in virtual time. Real brokers: tests/clients/test_fetcher.py."""

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.consumer import fetching
from ottla.consumer.addresses import Address
from ottla.consumer.errors import AuthenticationError, BrokerUnavailableError, RequestFailedError
from ottla.consumer.fetching import Fetcher, FetchRange
from ottla.consumer.settings import ClientSettings
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition
from ottla.core.wire import Writer

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERS = {0: 1, 1: 2}
REPLICAS: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}


def batch(base: int, count: int) -> bytes:
    return struct.pack(">qiibIhiqqqhii", base, 49, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)


def fetched(partition: int, records: bytes, error: int = 0, end: int = 100) -> bytes:
    """An answer to Fetch 12 about one partition of t."""
    body = Writer().int32(0).int16(0).int32(0).uvarint(2).compact_string("t").uvarint(2)
    body.int32(partition).int16(error).int64(end).int64(end).int64(0).uvarint(0).int32(-1)
    return body.uvarint(len(records) + 1).raw(records).uvarint(0).uvarint(0).uvarint(0).to_bytes()


class Peer:
    """A broker's connection: `script` says what each Fetch gets: bytes, an exception, or None for silence."""

    def __init__(self, world: "World", address: Address, told: Any) -> None:
        self.name, self.world, self.told, self.address = f"{address.host}:{address.port}", world, told, address
        self.timeout_ms = 0
        self.is_closed = False
        self.waiting: list[Any] = []
        # Whether an answer can be read is asked of the system: so there has to be a real socket.
        self.ours, self.theirs = socket.socketpair()

    def fileno(self) -> int:
        return self.ours.fileno()

    def is_stale(self, idle_ms_max: int) -> bool:
        return self.is_closed

    def speaks(self, api_key: int, version: int) -> bool:
        return version <= 12

    def ask(self, request: Any, response_class: type[Any]) -> Any:
        return self.told.ask(request, response_class)

    def send(self, api_key: int, version: int, body: bytes) -> None:
        offset = struct.unpack_from(">q", body, body.index(b"\x02t") + 11)[0]
        self.world.sent.append((self.address.host, offset))
        answer = self.world.script.pop(0)
        if isinstance(answer, BrokerUnavailableError):
            raise answer
        self.waiting.append(answer)
        if answer is not None:
            self.theirs.send(b"x")

    def receive(self) -> memoryview:
        self.ours.recv(1)
        answer = self.waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return memoryview(answer)

    def close(self) -> None:
        self.is_closed = True
        self.ours.close()
        self.theirs.close()


class World:
    """Brokers a:1 and b:2 as a fetcher meets them."""

    def __init__(self, told: Any) -> None:
        self.told = told
        self.script: list[Any] = []
        self.sent: list[tuple[str, int]] = []
        self.peers: list[Peer] = []
        self.refusals: list[Exception] = []
        for place in ("a:1", "b:2"):
            told.broker(place, self._metadata)

    def _metadata(self, api_key: int, request: Any) -> Any:
        partitions = [
            {"error_code": 0, "partition_index": number, "leader_id": leader, "leader_epoch": 0} | REPLICAS
            for number, leader in LEADERS.items()
        ]
        topic = {"error_code": 0, "name": "t", "topic_id": None, "partitions": partitions}
        brokers = [{"node_id": number, "host": host, "port": number, "rack": None} for number, host in ((1, "a"), (2, "b"))]
        return {"brokers": brokers, "topics": [topic], "cluster_id": None, "controller_id": 1}

    def connect(self, address: Address, settings: ClientSettings, timeout_ms: int) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        self.peers.append(Peer(self, address, self.told._connect(address, settings, timeout_ms)))
        return self.peers[-1]

    def fetcher(self, **settings: Any) -> Fetcher:
        made = ClientSettings(bootstrap_servers="a:1", **settings)
        return Fetcher(made, connect=self.connect, clock=lambda: self.told.now, pause=self.told._pause, dice=lambda: 0.5)


@pytest.fixture
def world(told: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Brokers, and waiting for them that only moves the clock."""
    made = World(told)
    readable: Callable[..., Any] = fetching.readable

    def quickly(connections: Any, wait_ms: float) -> Any:
        ready = readable(connections, 0)
        if not ready:
            told.now += wait_ms / 1000
        return ready

    monkeypatch.setattr(fetching, "readable", quickly)
    yield made
    for peer in made.peers:
        peer.close()


def test_the_next_request_is_on_its_way_while_records_are_worked_on(world: World) -> None:
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10))]
    pieces = world.fetcher().read([FetchRange(ZERO, 0, 20)])
    first = next(pieces)
    assert (first.position, first.next_offset, bytes(first.records)) == (0, 10, batch(0, 10))
    assert world.sent == [("a", 0), ("a", 10)]
    assert [piece.next_offset for piece in pieces] == [20]


def test_leaders_and_connections_are_kept_between_uses(world: World) -> None:
    with world.fetcher(metadata_max_age_ms=60_000) as fetcher:
        for number in range(3):
            world.script = [fetched(0, batch(10 * number, 10))]
            assert len(list(fetcher.read([FetchRange(ZERO, 10 * number, 10 * number + 10)]))) == 1
        assert len(world.told.asked) == 1, "one Metadata"
        assert len(world.peers) == 2, "one connection for metadata, one for records"
        world.told.now += 61
        world.script = [fetched(0, batch(30, 10))]
        list(fetcher.read([FetchRange(ZERO, 30, 40)]))
        assert len(world.told.asked) == 2, "leaders that are too old are looked up again"
    assert all(peer.is_closed for peer in world.peers)


def test_a_broker_that_is_lost_is_asked_again_after_a_wait(world: World) -> None:
    gone = BrokerUnavailableError("gone")
    world.script = [gone, BrokerUnavailableError("hung up"), fetched(0, batch(0, 10))]
    assert len(list(world.fetcher().read([FetchRange(ZERO, 0, 10)]))) == 1
    assert world.told.now >= 0.15
    assert len(world.sent) == 3


def test_silence_is_given_up_after_the_request_s_timeout(world: World) -> None:
    world.script = [None, fetched(0, batch(0, 10))]
    assert len(list(world.fetcher(request_timeout_ms=5_000).read([FetchRange(ZERO, 0, 10)]))) == 1
    assert 5 <= world.told.now < 6


def test_one_broker_s_silence_does_not_hold_up_another(world: World) -> None:
    world.script = [None, fetched(1, batch(0, 10)), fetched(1, batch(10, 10)), fetched(0, batch(0, 10))]
    pieces = [piece.partition for piece in world.fetcher(request_timeout_ms=5_000).read([FetchRange(ZERO, 0, 10), FetchRange(ONE, 0, 20)])]
    assert pieces == [ONE, ONE, ZERO]


def test_who_is_not_let_in_is_told_so_at_once(world: World) -> None:
    world.refusals = [AuthenticationError("no")]
    with pytest.raises(AuthenticationError):
        list(world.fetcher().read([FetchRange(ZERO, 0, 10)]))
    assert world.told.now == 0


def test_what_the_machine_cannot_solve_is_raised_behind_what_was_read(world: World) -> None:
    world.script = [fetched(0, batch(0, 10)), fetched(0, b"", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    pieces = world.fetcher().read([FetchRange(ZERO, 0, 20)])
    assert next(pieces).next_offset == 10
    with pytest.raises(RequestFailedError, match="TOPIC_AUTHORIZATION_FAILED"):
        next(pieces)


def test_an_answer_that_makes_no_sense_ends_the_connection(world: World) -> None:
    world.script = [b"\x00"]
    with pytest.raises(PeerError):
        list(world.fetcher().read([FetchRange(ZERO, 0, 20)]))
    assert world.peers[-1].is_closed


def test_a_reader_that_stops_leaves_no_answer_for_the_next_one(world: World) -> None:
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10)), fetched(0, batch(50, 10))]
    fetcher = world.fetcher()
    pieces = fetcher.read([FetchRange(ZERO, 0, 20)])
    next(pieces)
    pieces.close()
    assert world.peers[-1].is_closed
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 50, 60)])] == [50]


def test_what_was_asked_for_ahead_is_used_or_dropped(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.fetch_ahead([FetchRange(ZERO, 10, 20)])
    assert world.sent == [], "nobody is known yet"
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.fetch_ahead([FetchRange(ZERO, 10, 20)])
    fetcher.fetch_ahead([FetchRange(ZERO, 10, 20)])  # once is enough
    assert world.sent == [("a", 0), ("a", 10)]
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 10, 20)])] == [10]
    assert world.sent == [("a", 0), ("a", 10)], "the answer was on its way"

    world.script = [fetched(0, batch(20, 10)), fetched(0, batch(25, 10))]
    fetcher.fetch_ahead([FetchRange(ZERO, 20, 30)])
    before = len(world.peers)
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 25, 30)])] == [25]
    assert len(world.peers) == before + 1, "the connection with the answer nobody wants was closed"


def test_one_offset_of_a_partition_is_asked_for_ahead_and_only_where_that_can_be(world: World) -> None:
    fetcher = world.fetcher()
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.fetch_ahead([FetchRange(ZERO, 30, 40), FetchRange(ZERO, 10, 20), FetchRange(ONE, 0, 10)])
    assert world.sent == [("a", 0), ("a", 10)], "broker b is not connected"
    list(fetcher.read([FetchRange(ZERO, 10, 20)]))
    world.peers[-1].close()
    fetcher.fetch_ahead([FetchRange(ZERO, 20, 30)])
    assert len(world.sent) == 2, "the broker has hung up"


def test_a_failure_ahead_is_not_told(world: World) -> None:
    fetcher = world.fetcher()
    world.script = [fetched(0, batch(0, 10)), BrokerUnavailableError("gone"), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.fetch_ahead([FetchRange(ZERO, 10, 20)])
    assert len(list(fetcher.read([FetchRange(ZERO, 10, 20)]))) == 1


def test_addresses_that_are_none() -> None:
    with pytest.raises(ValueError, match="is no host:port"):
        Fetcher(ClientSettings(bootstrap_servers="x"))
