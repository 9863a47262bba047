"""Sockets: frames in any cut, one request at a time, bounds on what waits, and a connection that goes wrong goes alone."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.broker.apis import describe_log_dirs, offset_commit, produce
from ottla.broker.fetch.pending_fetch import PendingFetch
from ottla.broker.network import refusals
from ottla.broker.network.connection import (
    RECEIVE_BYTES,
    WAITING_BYTES_FREE,
    WAITING_BYTES_MAX,
    WAITING_FRAME_BYTES,
    Listener,
)
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.network.memory import SHORT_READ_BYTES
from ottla.broker.network.request import Request, java_address
from ottla.broker.network.scheduling import Pipelining
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient
from ottla.testing.waiting import wait_until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"socket.request.max.bytes": "2000000", "max.connections": "30"}) as running:
        yield running


@pytest.fixture
def connect(broker: Broker) -> Iterator[object]:
    made: list[socket.socket] = []

    def make() -> socket.socket:
        host, port = broker.bootstrap_servers.split(":")
        made.append(socket.create_connection((host, int(port)), timeout=60))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


def frame(key: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    data = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation.to_bytes(4, "big") + b"\xff\xff" + body
    return len(data).to_bytes(4, "big") + data


def heartbeat(correlation: int = 1, group: bytes = b"g") -> bytes:
    body = len(group).to_bytes(2, "big") + group + (0).to_bytes(4, "big") + b"\0\1m"
    return frame(ApiKey.HEARTBEAT, 0, body, correlation)


def read_answer(connection: socket.socket) -> bytes:
    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = connection.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    return exactly(int.from_bytes(exactly(4), "big"))


def fetch(wait_ms: int, topic: bytes = b"t", correlation: int = 1) -> bytes:
    head = (-1).to_bytes(4, "big", signed=True) + wait_ms.to_bytes(4, "big") + (1).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big") + b"\0"
    part = (0).to_bytes(4, "big") + (0).to_bytes(8, "big") + (1 << 20).to_bytes(4, "big")
    body = head + (1).to_bytes(4, "big") + len(topic).to_bytes(2, "big") + topic + (1).to_bytes(4, "big") + part
    return frame(ApiKey.FETCH, 4, body, correlation)


def make_topic(connection: socket.socket, name: bytes) -> None:
    connection.sendall(frame(ApiKey.METADATA, 1, (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name))
    read_answer(connection)


def waiters(broker: Broker, topic: bytes) -> int:
    """The parked fetches of partition 0."""
    assert broker._task is not None
    partition = broker._task.cluster.partitions.by_name(topic.decode(), 0)
    assert partition is not None
    return len(partition.waiters)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 9])
def test_frames_come_in_any_cut(connect, cut: int) -> None:
    connection = connect()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = heartbeat(7) + heartbeat(8)
    for at in range(0, len(data), cut):
        connection.sendall(data[at : at + cut])
        time.sleep(0.001)  # lets the loop see each piece by itself
    assert [read_answer(connection)[:4] for _ in range(2)] == [(7).to_bytes(4, "big"), (8).to_bytes(4, "big")]


def test_many_frames_in_one_piece_are_answered_in_order(connect) -> None:
    connection = connect()
    connection.sendall(b"".join(heartbeat(number) for number in range(500)))
    assert [int.from_bytes(read_answer(connection)[:4], "big") for _ in range(500)] == list(range(500))


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each iteration of the loop handles one request of each connection, as if the rest of its time were taken."""
    monkeypatch.setattr(Pipelining, "may_continue", lambda _self: False)


@pytest.mark.usefixtures("no_time")
def test_requests_that_are_handled_one_an_iteration_are_answered_in_order(broker: Broker, connect) -> None:
    connection, other = connect(), connect()
    first, rest = heartbeat(1000)[:7], heartbeat(1000)[7:]
    connection.sendall(b"".join(heartbeat(number) for number in range(300)) + first)
    other.sendall(heartbeat(5))
    assert read_answer(other)[:4] == (5).to_bytes(4, "big")
    connection.sendall(rest + heartbeat(1001))
    answers = [int.from_bytes(read_answer(connection)[:4], "big") for _ in range(302)]
    assert answers == [*range(300), 1000, 1001]
    assert broker._running().cluster.request_memory.held == 0


@pytest.mark.usefixtures("no_time")
def test_requests_of_one_read_wait_behind_a_long_poll_in_order(broker: Broker, connect) -> None:
    connection = connect()
    make_topic(connection, b"order")
    connection.sendall(heartbeat(1) + fetch(100, b"order", 2) + heartbeat(3) + fetch(100, b"order", 4) + heartbeat(5))
    assert [int.from_bytes(read_answer(connection)[:4], "big") for _ in range(5)] == [1, 2, 3, 4, 5]
    assert broker._running().cluster.request_memory.held == 0


@pytest.mark.usefixtures("no_time")
def test_a_client_that_goes_away_with_requests_unhandled_leaves_nothing_behind(broker: Broker, connect) -> None:
    connection = connect()
    make_topic(connection, b"order")
    connection.sendall(heartbeat(1) + fetch(60_000, b"order", 2) + heartbeat(3) * 300)
    read_answer(connection)
    memory = broker._running().cluster.request_memory
    held_bytes = 300 * (len(heartbeat(3)) - 4 + WAITING_FRAME_BYTES) - WAITING_BYTES_FREE

    def wait_for(held: int) -> None:
        wait_until(lambda: memory.held == held, lambda: f"{held} bytes; {memory.held} are held")

    wait_for(held_bytes)
    connection.close()
    wait_for(0)


def test_a_frame_larger_than_the_receive_buffer(connect) -> None:
    connection = connect()
    size = RECEIVE_BYTES * 3
    names = b"".join(b"\x03\xe8" + b"n" * 1000 for _ in range(size // 1002))
    connection.sendall(heartbeat(1) + frame(ApiKey.DESCRIBE_GROUPS, 0, (size // 1002).to_bytes(4, "big") + names, 2) + heartbeat(3))
    assert [int.from_bytes(read_answer(connection)[:4], "big") for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("size", [0, -1, 2_000_001, 2**31 - 1])
def test_a_frame_of_an_impossible_size_closes_that_connection_only(connect, size: int) -> None:
    good, bad = connect(), connect()
    bad.sendall(size.to_bytes(4, "big", signed=True) + b"xxxx")
    assert bad.recv(100) == b""
    good.sendall(heartbeat())
    assert read_answer(good)


def test_answers_before_a_bad_frame_still_arrive(connect) -> None:
    connection = connect()
    connection.sendall(heartbeat(1) + frame(ApiKey.HEARTBEAT, 99, b""))
    assert int.from_bytes(read_answer(connection)[:4], "big") == 1
    assert connection.recv(100) == b""


def test_a_request_behind_a_long_poll_waits_and_others_do_not(broker: Broker, connect) -> None:
    poller, patient, other = connect(), connect(), connect()
    make_topic(other, b"waiting")
    patient.sendall(fetch(600_000, b"waiting"))
    wait_until(lambda: waiters(broker, b"waiting") == 1, "a parked fetch")
    began = time.monotonic()
    poller.sendall(fetch(300, b"waiting", 1) + heartbeat(2))
    other.sendall(heartbeat(3))
    assert int.from_bytes(read_answer(other)[:4], "big") == 3
    assert [int.from_bytes(read_answer(poller)[:4], "big") for _ in range(2)] == [1, 2]
    assert time.monotonic() - began >= 0.29
    assert waiters(broker, b"waiting") == 1


def test_what_waits_behind_a_long_poll_is_bounded_and_nothing_is_lost(connect) -> None:
    poller, other = connect(), connect()
    make_topic(other, b"bounded")
    many = 3 * WAITING_BYTES_MAX // 1000
    poller.sendall(fetch(200, b"bounded", 0) + b"".join(heartbeat(number, b"g" * 970) for number in range(1, many)))
    assert [int.from_bytes(read_answer(poller)[:4], "big") for _ in range(many)] == list(range(many))


def test_a_peer_that_does_not_read_is_not_read_from(broker: Broker, connect) -> None:
    lazy = connect()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.settimeout(0.5)
    request = frame(ApiKey.API_VERSIONS, 0, b"")
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 200_000_000:
            sent += lazy.send(request * 1000)
    assert sent < 200_000_000


def test_a_client_that_goes_away_while_it_waits_leaves_nothing_behind(broker: Broker, connect) -> None:
    gone, other = connect(), connect()
    make_topic(other, b"left")
    gone.sendall(fetch(600_000, b"left"))
    wait_until(lambda: waiters(broker, b"left") == 1, "a parked fetch")
    gone.close()
    wait_until(lambda: waiters(broker, b"left") == 0, "no parked fetch")
    other.sendall(heartbeat(4))
    assert int.from_bytes(read_answer(other)[:4], "big") == 4


def test_no_more_connections_than_allowed() -> None:
    with Broker(config={"max.connections": "2"}) as small:
        host, port = small.bootstrap_servers.split(":")
        open_ones = [socket.create_connection((host, int(port)), timeout=60) for _ in range(3)]
        for connection in open_ones[:2]:
            connection.sendall(heartbeat())
            assert read_answer(connection)
        assert open_ones[2].recv(10) == b""
        for connection in open_ones:
            connection.close()


def test_a_failing_disk_closes_one_connection_and_the_broker_lives(monkeypatch) -> None:
    def full(*_args, **_kwargs) -> None:
        raise StorageError("the disk is full")

    with Broker() as broker:
        monkeypatch.setattr(PartitionLog, "append_records", full)
        host, port = broker.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as first:
            first.sendall(heartbeat())  # makes the offsets topic, which cannot be kept
            assert first.recv(10) == b""
        monkeypatch.undo()
        with socket.create_connection((host, int(port)), timeout=60) as second:
            second.sendall(heartbeat())
            assert read_answer(second)


def closed_by(connection: socket.socket) -> bool:
    try:
        read_answer(connection)
    except (EOFError, ConnectionResetError):
        return True
    return False


def test_a_waiting_request_that_fails_unexpectedly_ends_its_connection(connect, monkeypatch, caplog) -> None:
    reader = connect()
    make_topic(reader, b"unexpected")
    look = PendingFetch.try_to_answer
    looks = []

    def fail(waiting, time_is_up: bool) -> bool:
        looks.append(time_is_up)
        if len(looks) > 1:
            raise ZeroDivisionError
        return look(waiting, time_is_up)

    monkeypatch.setattr(PendingFetch, "try_to_answer", fail)
    reader.sendall(fetch(50, b"unexpected"))
    assert closed_by(reader)
    assert looks == [False, True]
    assert "its request failed unexpectedly" in caplog.text


def test_an_answer_that_fails_unexpectedly_off_its_handler_ends_its_connection(connect, monkeypatch) -> None:
    def fail(*_values) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(describe_log_dirs, "_topics", fail)
    connection = connect()
    connection.sendall(frame(ApiKey.DESCRIBE_LOG_DIRS, 1, (-1).to_bytes(4, "big", signed=True)))
    assert closed_by(connection)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("::", "/0:0:0:0:0:0:0:0"),
        ("2001:db8::a0:0:1", "/2001:db8:0:0:0:a0:0:1"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_a_clients_host_is_shown_as_java_prints_it(address: str, shown: str) -> None:
    assert java_address(address) == shown


def describe_groups(count: int, correlation: int = 1) -> bytes:
    body = count.to_bytes(4, "big") + b"".join(b"\0\5" + b"%05d" % number for number in range(count))
    return frame(ApiKey.DESCRIBE_GROUPS, 0, body, correlation)


def test_a_large_request_is_decoded_from_bytes_of_its_own(connect) -> None:
    connection, other = connect(), connect()
    connection.sendall(describe_groups(20_000, 7) + heartbeat(8))
    other.sendall(heartbeat(9) * 1000)  # uses the buffer in which the large request came
    answer = read_answer(connection)
    assert answer[:4] == (7).to_bytes(4, "big")
    assert all(b"%05d" % number in answer for number in range(0, 20_000, 999))
    assert read_answer(connection)[:4] == (8).to_bytes(4, "big"), "the next request waits for it"
    assert read_answer(other)[:4] == (9).to_bytes(4, "big")


def test_a_large_request_that_cannot_be_read_closes_its_connection_alone(connect, caplog: pytest.LogCaptureFixture) -> None:
    connection, other = connect(), connect()
    connection.sendall(frame(ApiKey.DESCRIBE_GROUPS, 0, (200_001).to_bytes(4, "big") + b"\0\1g" * 200_001))
    with pytest.raises(EOFError):
        read_answer(connection)
    other.sendall(heartbeat(9))
    assert read_answer(other)[:4] == (9).to_bytes(4, "big")
    assert "more than 200000 elements in one request" in caplog.text
    assert "Traceback" not in caplog.text


GROUP = {"group_id": "g"}


@pytest.mark.parametrize(
    ("key", "version", "values"),
    [
        (ApiKey.LEAVE_GROUP, 3, {**GROUP, "members": [{"member_id": "m"}] * 10_001}),
        (ApiKey.SYNC_GROUP, 5, {**GROUP, "assignments": [{"member_id": "m"}] * 50_001}),
        (ApiKey.OFFSET_DELETE, 0, {**GROUP, "topics": [{"name": "t", "partitions": [{"partition_index": 0}] * 10_001}]}),
        (ApiKey.OFFSET_FETCH, 7, {**GROUP, "topics": [{"name": "t", "partition_indexes": [0] * 40_001}]}),
        (ApiKey.FETCH, 12, {"topics": [{"topic": "t", "partitions": [{"partition": 0}] * 20_001}]}),
    ],
    ids=lambda value: None if isinstance(value, dict) else getattr(value, "name", str(value)),
)
def test_a_request_beyond_a_limit_is_refused_and_its_connection_goes_on(
    broker: Broker, key: ApiKey, version: int, values: dict[str, Any]
) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        assert client.call(key, version, **values).error_code == ErrorCode.INVALID_REQUEST
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.NONE


def test_each_partition_of_a_commit_beyond_a_limit_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_commit, "PARTITIONS_MAX", 20)
    topic = {"name": "t", "partitions": [{"partition_index": number} for number in range(20)]}
    with RawClient(broker.bootstrap_servers) as client:
        (refused,) = client.call(ApiKey.OFFSET_COMMIT, 8, **GROUP, topics=[topic]).topics
        assert [(each.partition_index, each.error_code) for each in refused.partitions] == [
            (number, ErrorCode.INVALID_COMMIT_OFFSET_SIZE) for number in range(20)
        ]
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.NONE


def test_each_name_of_a_request_beyond_a_limit_is_refused(broker: Broker) -> None:
    names = [f"t{number}" for number in range(10_001)]
    with RawClient(broker.bootstrap_servers) as client:
        answer = client.call(ApiKey.DELETE_TOPICS, 5, topic_names=names, timeout=1000)
        assert [(each.name, each.error_code) for each in answer.responses] == [(name, ErrorCode.INVALID_REQUEST) for name in names]
        assert "more than 10000 elements in one request" in answer.responses[0].error_message


def test_what_expects_no_response_or_names_too_much_closes_its_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "PARTITIONS_MAX", 20)
    fields = {"timeout": 1000, "topic_data": [{"name": "t", "partition_data": [{"index": 0}] * 21}]}
    with RawClient(broker.bootstrap_servers) as client, pytest.raises(Disconnected):
        client.call(ApiKey.PRODUCE, 9, acks=0, **fields)
    with RawClient(broker.bootstrap_servers) as client:
        (topic,) = client.call(ApiKey.PRODUCE, 9, acks=-1, **fields).responses
        assert {each.error_code for each in topic.partition_responses} == {ErrorCode.INVALID_REQUEST}
        monkeypatch.setattr(refusals, "NAMED_MAX", 20)
        with pytest.raises(Disconnected):
            client.call(ApiKey.PRODUCE, 9, acks=-1, **fields)


def test_what_a_parked_request_has_copied_counts_as_memory_until_it_is_answered(broker: Broker, connect, monkeypatch) -> None:
    assert broker._task is not None
    memory = broker._task.cluster.request_memory
    held = memory.held

    parked: list[tuple[asyncio.AbstractEventLoop, Request]] = []

    def park(_dispatcher: object, _api: object, request: Request) -> None:
        request.held_bytes = 12_345
        parked.append((asyncio.get_running_loop(), request))

    monkeypatch.setattr(Dispatcher, "dispatch", park)
    answered, gone = connect(), connect()
    for connection in (answered, gone):
        connection.sendall(heartbeat())
    wait_until(lambda: memory.held == held + 2 * 12_345, lambda: f"{held + 2 * 12_345} held bytes, not {memory.held}")
    loop, request = parked[0]
    loop.call_soon_threadsafe(request.no_reply)
    wait_until(lambda: memory.held == held + 12_345, lambda: f"{held + 12_345} held bytes, not {memory.held}")
    gone.close()
    answered.close()
    wait_until(lambda: memory.held == held, lambda: f"{held} held bytes, not {memory.held}")


# What connections share.


def test_reads_while_memory_is_short_use_part_of_the_same_buffer() -> None:
    none: Any = None
    listener = Listener(
        name="PLAINTEXT",
        endpoint=none,
        authorizer=None,
        dispatcher=none,
        quotas=none,
        frame_bytes_max=100,
        event_loop_batch=none,
        pipelining=none,
        request_memory=none,
        response_memory=none,
    )
    assert (len(listener.receive_buffer), len(listener.short_receive_buffer)) == (RECEIVE_BYTES, SHORT_READ_BYTES)
    listener.short_receive_buffer[0] = 7
    assert listener.receive_buffer[0] == 7
