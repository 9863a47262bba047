"""The fetch client's shell, with scripted connections, in virtual time. Against real brokers: tests/clients/test_fetcher.py."""

import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.admin.values import EARLIEST, DescribedTopic, Failure
from ottla.client.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ClientError,
    OffsetOutOfRangeError,
    RequestFailedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from ottla.client.fetch import fetcher as fetcher_module
from ottla.client.fetch.fetch_values import (
    BrokersUnreachable,
    FetchRange,
    OffsetOutOfRange,
    PartitionRefused,
    Problem,
    TopicRecreated,
    UnknownPartition,
)
from ottla.client.fetch.fetcher import Fetcher, error_of, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import Writer

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERS = {0: 1, 1: 2}
REPLICAS: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}


def batch(base: int, count: int) -> bytes:
    return struct.pack(">qiibIhiqqqhii", base, 49, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)


def fetched(partition: int, records: bytes, error: int = 0, end: int = 100) -> bytes:
    """A Fetch 12 response with one partition of t."""
    body = Writer(flexible=True).int32(0).int16(0).int32(0).uvarint(2).string("t").uvarint(2)
    body.int32(partition).int16(error).int64(end).int64(end).int64(0).uvarint(0).int32(-1)
    return body.uvarint(len(records) + 1).raw(records).uvarint(0).uvarint(0).uvarint(0).to_bytes()


class Peer:
    """A broker's connection. `script` has the outcome of each Fetch: bytes, an exception, or None for no response."""

    def __init__(self, world: "World", address: Address, scripted: Any) -> None:
        self.name, self.world, self.scripted, self.address = f"{address.host}:{address.port}", world, scripted, address
        self.timeout_ms = 0
        self.is_closed = self.wants_write = False
        self.waiting: list[Any] = []
        # The operating system reports readable connections, so there has to be a real socket.
        self.ours, self.theirs = socket.socketpair()

    def fileno(self) -> int:
        return self.ours.fileno()

    def is_stale(self, idle_ms_max: int) -> bool:
        return self.is_closed

    def speaks(self, api_key: int, version: int) -> bool:
        return version <= 12

    def call(self, request: Any, response_class: type[Any]) -> Any:
        return self.scripted.call(request, response_class)

    def send(self, api_key: int, version: int, body: bytes) -> None:
        offset = struct.unpack_from(">q", body, body.index(b"\x02t") + 11)[0]
        self.world.sent.append((self.address.host, offset))
        answer = self.world.script.pop(0)
        if isinstance(answer, BrokerUnavailableError):
            raise answer
        self.waiting.append(answer)
        if answer is not None:
            self.theirs.send(b"x")

    def wait_for_response(self) -> memoryview:
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
    """The scripted brokers a:1 and b:2."""

    def __init__(self, scripted: Any) -> None:
        self.scripted = scripted
        self.script: list[Any] = []
        self.sent: list[tuple[str, int]] = []
        self.peers: list[Peer] = []
        self.refusals: list[Exception] = []
        for place in ("a:1", "b:2"):
            scripted.broker(place, self._metadata)

    def _metadata(self, api_key: int, request: Any) -> Any:
        partitions = [
            {"error_code": ErrorCode.NONE, "partition_index": number, "leader_id": leader, "leader_epoch": 0} | REPLICAS
            for number, leader in LEADERS.items()
        ]
        topic = {"error_code": ErrorCode.NONE, "name": "t", "topic_id": None, "partitions": partitions}
        brokers = [{"node_id": number, "host": host, "port": number, "rack": None} for number, host in ((1, "a"), (2, "b"))]
        return {"brokers": brokers, "topics": [topic], "cluster_id": None, "controller_id": 1}

    def connect(self, address: Address, settings: ClientSettings, timeout_ms: int) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        self.peers.append(Peer(self, address, self.scripted._connect(address, settings, timeout_ms)))
        return self.peers[-1]

    def fetcher(self, **settings: Any) -> Fetcher:
        made = ClientSettings(bootstrap_servers="a:1", **settings)
        return Fetcher(made, connect=self.connect, clock=lambda: self.scripted.now, pause=self.scripted._pause, rng=lambda: 0.5)


@pytest.fixture
def world(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Brokers; waiting for them only moves the clock."""
    made = World(scripted)
    wait: Callable[..., Any] = fetcher_module.ready

    def quickly(connections: Any, wait_ms: float) -> Any:
        ready = wait(connections, 0)
        if not ready:
            scripted.now += wait_ms / 1000
        return ready

    monkeypatch.setattr(fetcher_module, "ready", quickly)
    yield made
    for peer in made.peers:
        peer.close()


def test_the_next_request_is_in_flight_while_records_are_processed(world: World) -> None:
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
        assert len(world.scripted.asked) == 1, "one Metadata"
        assert len(world.peers) == 2, "one connection for metadata, one for records"
        world.scripted.now += 61
        world.script = [fetched(0, batch(30, 10))]
        list(fetcher.read([FetchRange(ZERO, 30, 40)]))
        assert len(world.scripted.asked) == 2, "leaders that are too old are looked up again"
    assert all(peer.is_closed for peer in world.peers)


def test_a_lost_broker_is_retried_after_a_back_off(world: World) -> None:
    gone = BrokerUnavailableError("gone")
    world.script = [gone, BrokerUnavailableError("hung up"), fetched(0, batch(0, 10))]
    assert len(list(world.fetcher().read([FetchRange(ZERO, 0, 10)]))) == 1
    assert world.scripted.now >= 0.15
    assert len(world.sent) == 3


def test_a_request_without_a_response_times_out(world: World) -> None:
    world.script = [None, fetched(0, batch(0, 10))]
    assert len(list(world.fetcher(request_timeout_ms=5_000).read([FetchRange(ZERO, 0, 10)]))) == 1
    assert 5 <= world.scripted.now < 6


def test_a_silent_broker_does_not_delay_another(world: World) -> None:
    world.script = [None, fetched(1, batch(0, 10)), fetched(1, batch(10, 10)), fetched(0, batch(0, 10))]
    pieces = [piece.partition for piece in world.fetcher(request_timeout_ms=5_000).read([FetchRange(ZERO, 0, 10), FetchRange(ONE, 0, 20)])]
    assert pieces == [ONE, ONE, ZERO]


def test_a_failed_authentication_is_raised_at_once(world: World) -> None:
    world.refusals = [AuthenticationError("no")]
    with pytest.raises(AuthenticationError):
        list(world.fetcher().read([FetchRange(ZERO, 0, 10)]))
    assert world.scripted.now == 0


def test_a_problem_is_raised_after_the_records_before_it(world: World) -> None:
    world.script = [fetched(0, batch(0, 10)), fetched(0, b"", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    pieces = world.fetcher().read([FetchRange(ZERO, 0, 20)])
    assert next(pieces).next_offset == 10
    with pytest.raises(RequestFailedError, match="TOPIC_AUTHORIZATION_FAILED"):
        next(pieces)


def test_a_malformed_response_closes_the_connection(world: World) -> None:
    world.script = [b"\x00"]
    with pytest.raises(PeerError):
        list(world.fetcher().read([FetchRange(ZERO, 0, 20)]))
    assert world.peers[-1].is_closed


def test_a_reader_that_stops_leaves_no_response_for_the_next_one(world: World) -> None:
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10)), fetched(0, batch(50, 10))]
    fetcher = world.fetcher()
    pieces = fetcher.read([FetchRange(ZERO, 0, 20)])
    next(pieces)
    pieces.close()
    assert world.peers[-1].is_closed
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 50, 60)])] == [50]


def test_prefetched_records_are_used_or_dropped(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.prefetch([FetchRange(ZERO, 10, 20)])
    assert world.sent == [], "no leader is known yet"
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.prefetch([FetchRange(ZERO, 10, 20)])
    fetcher.prefetch([FetchRange(ZERO, 10, 20)])  # once is enough
    assert world.sent == [("a", 0), ("a", 10)]
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 10, 20)])] == [10]
    assert world.sent == [("a", 0), ("a", 10)], "the answer was on its way"

    world.script = [fetched(0, batch(20, 10)), fetched(0, batch(25, 10))]
    fetcher.prefetch([FetchRange(ZERO, 20, 30)])
    before = len(world.peers)
    assert [piece.position for piece in fetcher.read([FetchRange(ZERO, 25, 30)])] == [25]
    assert len(world.peers) == before + 1, "the connection with the unwanted response was closed"


def test_one_range_of_a_partition_is_prefetched_where_its_leader_is_connected(world: World) -> None:
    fetcher = world.fetcher()
    world.script = [fetched(0, batch(0, 10)), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.prefetch([FetchRange(ZERO, 30, 40), FetchRange(ZERO, 10, 20), FetchRange(ONE, 0, 10)])
    assert world.sent == [("a", 0), ("a", 10)], "broker b is not connected"
    list(fetcher.read([FetchRange(ZERO, 10, 20)]))
    world.peers[-1].close()
    fetcher.prefetch([FetchRange(ZERO, 20, 30)])
    assert len(world.sent) == 2, "the broker has hung up"


def test_a_failed_prefetch_raises_nothing(world: World) -> None:
    fetcher = world.fetcher()
    world.script = [fetched(0, batch(0, 10)), BrokerUnavailableError("gone"), fetched(0, batch(10, 10))]
    list(fetcher.read([FetchRange(ZERO, 0, 10)]))
    fetcher.prefetch([FetchRange(ZERO, 10, 20)])
    assert len(list(fetcher.read([FetchRange(ZERO, 10, 20)]))) == 1


def test_malformed_bootstrap_servers() -> None:
    with pytest.raises(ValueError, match="is no host:port"):
        Fetcher(ClientSettings(bootstrap_servers="x"))


FAILED_ZERO = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (TopicRecreated("t", "a", "b"), TopicRecreatedError, "topic t was deleted or re-created: its id was a, now it is b"),
        (TopicRecreated("t", "a", ""), TopicRecreatedError, "its id was a, there is none of this id any more"),
        (BrokersUnreachable("no broker"), BrokerUnavailableError, "no broker"),
        (
            PartitionRefused(FAILED_ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            RequestFailedError,
            "partition 0 of topic t: TOPIC_AUTHORIZATION_FAILED",
        ),
        (UnknownPartition(FAILED_ZERO), UnknownTopicError, "partition 0 of topic t does not exist"),
        (OffsetOutOfRange(FAILED_ZERO, 20, 5, 20), OffsetOutOfRangeError, "ends at offset 20, but more records were expected"),
        (OffsetOutOfRange(FAILED_ZERO, 3, 5, 20), OffsetOutOfRangeError, r"offset 3 of partition 0 of topic t is outside .* \(5 to 20\)"),
    ],
)
def test_each_problem_has_its_error(scripted: Any, problem: Problem, kind: type[ClientError], sentence: str) -> None:
    error = error_of(problem, scripted.brokers())
    assert type(error) is kind
    with pytest.raises(kind, match=sentence):
        raise error
    assert scripted.asked == []


def test_unknown_bounds_are_requested(scripted: Any) -> None:
    def answer(api_key: int, request: Any) -> Any:
        if api_key == ApiKey.METADATA:
            replicas: dict[str, Any] = {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}
            partition = {"error_code": ErrorCode.NONE, "partition_index": 0, "leader_id": 1, "leader_epoch": 0} | replicas
            topic = {"error_code": ErrorCode.NONE, "name": "t", "topic_id": None, "partitions": (partition,)}
            brokers = ({"node_id": 1, "host": "a", "port": 1, "rack": None},)
            return {"brokers": brokers, "topics": (topic,), "cluster_id": None, "controller_id": 1}
        (asked,) = request.topics[0].partitions
        offset = {-2: 5, -1: 20}[asked.timestamp]
        item = {"partition_index": 0, "error_code": ErrorCode.NONE, "offset": offset, "timestamp": -1, "leader_epoch": 0}
        return {"topics": ({"name": "t", "partitions": (item,)},)}

    scripted.broker("a:1", answer)
    error = error_of(OffsetOutOfRange(FAILED_ZERO, 99, -1, -1), scripted.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.partition, error.position, error.log_start_offset, error.end_offset) == (FAILED_ZERO, 99, 5, 20)


def test_bounds_stay_unknown_where_no_broker_answers(scripted: Any) -> None:
    error = error_of(OffsetOutOfRange(FAILED_ZERO, 99, -1, -1), scripted.brokers())
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.log_start_offset, error.end_offset) == (-1, -1)
    assert str(error) == "offset 99 of partition 0 of topic t is outside what the broker holds"


class Admin:
    """Knows topic `t` of three partitions: 0 holds offsets 5 to 9, 1 is empty, 2 has no leader."""

    def __init__(self, failure: ErrorCode | None = None) -> None:
        self.failure = failure

    def describe_topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        found = DescribedTopic("t", {0: 1, 1: 1, 2: None}, "id") if self.failure is None else Failure(self.failure)
        return dict.fromkeys(names, found)

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> Mapping[TopicPartition, int]:
        bounds = {0: (5, 10), 1: (0, 0)}
        return {each: bounds[each.partition][timestamp != EARLIEST] for each in partitions}


def ranges(admin: Admin, **options: Any) -> list[FetchRange]:
    return topic_ranges(admin, "t", **options)  # type: ignore[arg-type]


TOPIC_ONE = FetchRange(TopicPartition("t", 1), 0, 0, "id")


def test_from_the_start_to_the_present_end() -> None:
    assert ranges(Admin()) == [FetchRange(TopicPartition("t", 0), 5, 10, "id"), TOPIC_ONE]
    assert ranges(Admin(), partitions=[1]) == [TOPIC_ONE]


@pytest.mark.parametrize(("position", "start", "end"), [(7, 7, 10), (2, 5, 10), (10, 10, 10), (12, 12, 10)])
def test_from_where_a_reader_stopped(position: int, start: int, end: int) -> None:
    assert ranges(Admin(), positions={0: position})[0] == FetchRange(TopicPartition("t", 0), start, end, "id")


def test_a_topic_that_does_not_exist_or_may_not_be_read() -> None:
    with pytest.raises(UnknownTopicError, match="does not exist"):
        ranges(Admin(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(RequestFailedError, match="TOPIC_AUTHORIZATION_FAILED") as refused:
        ranges(Admin(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
