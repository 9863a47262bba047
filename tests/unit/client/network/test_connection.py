"""One connection against canned bytes: order, bounds, timeouts, and peers that are no brokers."""

import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse

from ottla.client.errors import AuthenticationError, BrokerUnavailableError, UnsupportedBrokerError
from ottla.client.network.connection import (
    FRAME_BYTES_MAX,
    BrokerConnection,
    FrameBuffer,
    next_correlation_id,
    ready,
    request_frame,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey

REQUEST = MetadataRequest(
    topics=(), allow_auto_topic_creation=False, include_cluster_authorized_operations=False, include_topic_authorized_operations=False
)


def _connect(broker: Any, **options: Any) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", broker.port, client_id="tester", **{"timeout_ms": 2_000, **options})


def _receive(connection: BrokerConnection, count: int) -> list[bytes]:
    """So many responses, as a user gets them who waits for the socket."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        assert connection.has_pending or ready([connection], 5_000), "an answer comes in time"
        connection.flush()
        bodies += [bytes(body) for body in connection.receive()]
    return bodies


def test_responses_come_in_the_order_of_the_requests(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    broker = canned_broker(lambda key, correlation: frame(correlation, b"\x00" + b"answer to %d" % correlation))
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"first")
        connection.send(ApiKey.FETCH, 12, b"second")
        assert _receive(connection, 2) == [b"answer to 2", b"answer to 3"]
        connection.send(ApiKey.FETCH, 12, b"third")
        assert connection.wait_for_response() == b"answer to 4"
    assert broker.requests[1] == struct.pack(">hhi", 1, 12, 2) + b"\x00\x06tester\x00first"


def test_a_response_is_read_only_memory(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: frame(correlation, b"\x00abc"))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        assert connection.wait_for_response().readonly


def test_a_large_response_comes_in_pieces(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: frame(correlation, b"\x00" + bytes(3_000_000)))) as connection:
        for receive in (lambda: _receive(connection, 1)[0], connection.wait_for_response):
            connection.send(ApiKey.FETCH, 12, b"")
            assert receive() == bytes(3_000_000)


def test_nothing_to_read_is_not_waited_for(canned_broker: Any):
    with _connect(canned_broker(lambda key, correlation: b"")) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        assert connection.receive() == []
        assert not connection.wants_write
        assert not connection.has_pending


def _busy(canned_broker: Any, frame: Callable[[int, bytes], bytes]) -> tuple[BrokerConnection, threading.Event]:
    """A connection with 8 MB for a broker that does not read before the event is set."""
    gate = threading.Event()

    def answer(key: int, correlation: int) -> Iterator[bytes]:
        yield frame(correlation, b"\0%d" % correlation)
        gate.wait(60)

    connection = _connect(canned_broker(answer), send_buffer_bytes=100_000, timeout_ms=30_000)
    connection.send(ApiKey.FETCH, 12, b"")
    assert connection.wait_for_response() == b"2"
    connection.send(ApiKey.FETCH, 12, bytes(8_000_000))
    assert connection.wants_write
    assert ready([connection], 0) == []
    return connection, gate


def test_requests_wait_until_the_broker_reads(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    connection, gate = _busy(canned_broker, frame)
    with connection:
        connection.send(ApiKey.FETCH, 12, b"")
        gate.set()
        assert _receive(connection, 2) == [b"3", b"4"]
        assert not connection.wants_write


def test_a_large_request_is_sent_while_its_response_is_waited_for(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    connection, gate = _busy(canned_broker, frame)
    with connection:
        threading.Timer(0.1, gate.set).start()
        assert connection.wait_for_response() == b"3"


def test_a_broker_that_reads_nothing_is_not_waited_for_longer(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    connection, gate = _busy(canned_broker, frame)
    with connection:
        connection.timeout_ms = 100
        with pytest.raises(BrokerUnavailableError, match="no answer within 100 ms"):
            connection.wait_for_response()
        gate.set()


def test_a_connection_that_cannot_be_written_to_is_closed(canned_broker: Any):
    connection = _connect(canned_broker(lambda key, correlation: b""))
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
    with pytest.raises(BrokerUnavailableError, match="lost broker"):
        connection.send(ApiKey.FETCH, 12, b"")
    assert connection.fileno() == -1


def test_a_message_of_kio_there_and_back(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    body = b"\x00" + struct.pack(">i", 0) + b"\x01\x03cl" + struct.pack(">i", 1) + b"\x01" + struct.pack(">i", -1) + b"\x00"
    with _connect(canned_broker(lambda key, correlation: frame(correlation, body))) as connection:
        assert connection.call(REQUEST, MetadataResponse).cluster_id == "cl"


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00" + b"\xff" * 40, bytes(5) + b"\xff\xff\xff\xff\x0f"])
def test_a_message_that_cannot_be_read_blames_the_peer(canned_broker: Any, frame: Callable[[int, bytes], bytes], body: bytes):
    with _connect(canned_broker(lambda key, correlation: frame(correlation, body))) as connection, pytest.raises(PeerError):
        connection.call(REQUEST, MetadataResponse)


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_response_of_impossible_size_is_not_read(canned_broker: Any, size: int):
    with _connect(canned_broker(lambda key, correlation: struct.pack(">i", size))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(PeerError, match="announced an answer"):
            connection.wait_for_response()


@pytest.mark.parametrize("size", [200 * 1024 * 1024, FRAME_BYTES_MAX])
def test_a_long_announcement_takes_little_memory(canned_broker: Any, resident_bytes: Callable[[], int], size: int):
    broker = canned_broker(lambda key, correlation: struct.pack(">i", size) + bytes(100))
    resident: list[int] = []

    def clock() -> float:  # it is looked at before each piece is read
        resident.append(resident_bytes())
        return time.monotonic()

    with _connect(broker, clock=clock) as connection:
        connection.timeout_ms = 100
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match="no answer within 100 ms"):
            connection.wait_for_response()
    assert max(resident) - resident[0] < 20 * 1024 * 1024


@pytest.mark.parametrize("tags", [b"", b"\0"])
def test_a_response_to_another_request_blames_the_peer(canned_broker: Any, frame: Callable[[int, bytes], bytes], tags: bytes):
    with _connect(canned_broker(lambda key, correlation: frame(correlation + 1, tags))) as connection:
        connection.send(ApiKey.FETCH, 12 if tags else 11, b"", is_flexible=bool(tags))
        with pytest.raises(PeerError, match=f"broker {connection.name} answered out of order"):
            connection.wait_for_response()
        assert connection.is_stale(-1), "it is closed"


def test_a_response_without_a_request_blames_the_peer(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: 2 * frame(correlation, b"\0"))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(PeerError, match="without a request"):
            _receive(connection, 2)


def test_silence_is_bounded_by_the_timeout_of_the_call(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    def answer(key: int, correlation: int) -> Iterator[bytes]:
        if correlation < 4:
            time.sleep(0.2)
            yield frame(correlation, b"\0")

    with _connect(canned_broker(answer)) as connection:
        for timeout_ms in (1_000, 5_000):
            connection.timeout_ms = timeout_ms
            connection.send(ApiKey.FETCH, 12, b"")
            connection.wait_for_response()
        connection.timeout_ms = 50
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match=f"lost broker {connection.name}: no answer within 50 ms"):
            connection.wait_for_response()
        assert connection.is_stale(-1), "it is closed"


def test_bytes_that_trickle_in_are_bounded_too(canned_broker: Any):
    def answer(key: int, correlation: int) -> Iterator[bytes]:
        yield struct.pack(">i", 1_000)
        for _ in range(500):
            time.sleep(0.01)
            yield b"\0"

    with _connect(canned_broker(answer)) as connection:
        connection.timeout_ms = 200
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match="no answer within 200 ms"):
            connection.wait_for_response()


def test_a_broker_that_hangs_up_is_named(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: None)
    message = rf"lost broker 127.0.0.1:{broker.port}: the broker closed the connection"
    for receive in (lambda connection: _receive(connection, 1), BrokerConnection.wait_for_response):
        with _connect(broker) as connection:
            connection.send(ApiKey.FETCH, 12, b"")
            with pytest.raises(BrokerUnavailableError, match=message):
                receive(connection)


def test_no_broker_at_all(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: None)
    broker.close()
    with pytest.raises(BrokerUnavailableError, match=f"no connection to broker 127.0.0.1:{broker.port}"):
        _connect(broker)


def test_versions(canned_broker: Any):
    with _connect(canned_broker(lambda key, correlation: b"")) as connection:
        assert connection.version(ApiKey.FETCH, 12, 16) == 16
        assert connection.version(ApiKey.FETCH, 12, 99) == 18
        what = r"does not speak version 19 of API 1 \(it speaks 4 to 18\): a newer one does"
        with pytest.raises(UnsupportedBrokerError, match=what):
            connection.version(ApiKey.FETCH, 19, 20)
        with pytest.raises(UnsupportedBrokerError, match=r"\(it has no such API\)"):
            connection.version(ApiKey.JOIN_GROUP, 5, 9)


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.FETCH, 19), (ApiKey.FETCH, 3), (77, 0)])
def test_unsupported_versions_are_not_sent(canned_broker: Any, api_key: int, version: int):
    broker = canned_broker(lambda key, correlation: b"")
    with _connect(broker) as connection, pytest.raises(UnsupportedBrokerError, match=f"does not speak version {version} of API {api_key}"):
        connection.send(api_key, version, b"")
    assert len(broker.requests) == 1


@pytest.mark.parametrize(
    ("versions_body", "error"),
    [
        (struct.pack(">h", 35), UnsupportedBrokerError),
        (b"", PeerError),
        (struct.pack(">h", 0) + b"\xff\xff\xff\xff\x0f", PeerError),
    ],
)
def test_a_broker_without_api_versions(canned_broker: Any, versions_body: bytes, error: type[Exception]):
    with pytest.raises(error):
        _connect(canned_broker(lambda key, correlation: b"", versions_body=versions_body))


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("a\0b", 9092), ("a" * 300, 9092), ("", 1)])
def test_a_malformed_address_is_an_unavailable_broker(host: str, port: int):
    with pytest.raises(BrokerUnavailableError, match="no connection to broker"):
        BrokerConnection(host, port, client_id="tester", timeout_ms=500)


def test_a_request_without_tagged_fields(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    broker = canned_broker(lambda key, correlation: frame(correlation, b"answer"))
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 11, b"body", is_flexible=False)
        assert bytes(connection.wait_for_response()) == b"answer"
        assert [connection.speaks(*asked) for asked in ((ApiKey.FETCH, 11), (ApiKey.FETCH, 12), (ApiKey.METADATA, 14), (999, 0))] == [
            True,
            True,
            False,
            False,
        ]
    assert broker.requests[1] == struct.pack(">hhi", 1, 11, 2) + b"\x00\x06testerbody"


def test_a_connection_is_stale_when_it_ended_or_was_idle_or_its_session_ends(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    def answer(key: int, correlation: int) -> Iterator[bytes]:
        yield frame(correlation, b"\0")
        raise OSError("hang up")

    now = [100.0]
    broker = canned_broker(answer)
    with _connect(broker, clock=lambda: now[0]) as connection:
        assert not connection.is_stale(60_000)
        now[0] += 61
        assert connection.is_stale(60_000)
        assert not connection.is_stale(-1)
        connection.end_after(0)
        assert not connection.is_stale(-1)
        connection.end_after(10_000)
        now[0] += 8.4
        assert not connection.is_stale(-1)
        now[0] += 0.2
        assert connection.is_stale(-1), "well before the broker ends it"
        connection.send(ApiKey.FETCH, 12, b"")
        assert not connection.is_stale(60_000), "it waits for an answer"
    with _connect(broker) as connection:
        assert not connection.is_stale(-1)
        connection.send(ApiKey.FETCH, 12, b"")
        connection.wait_for_response()
        assert ready([connection], 5_000) == [connection], "the broker hung up"
        assert connection.is_stale(-1)
    assert connection.is_stale(-1), "it is closed"


def test_a_broker_with_tls_is_recognized(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: b"\x15\x03\x03\x00\x02\x02\x0a")
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(AuthenticationError, match=r"security.protocol must be SSL or SASL_SSL"):
            connection.wait_for_response()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_an_encrypted_connection(canned_broker: Any, frame: Callable[[int, bytes], bytes], tmp_path: Path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)

    def answer(key: int, correlation: int) -> Iterator[bytes]:
        if correlation == 3:  # both in one record of TLS
            yield frame(2, b"\0first") + frame(3, b"\0second")
        elif correlation > 3:
            yield frame(correlation, b"\0" + bytes(3_000_000))

    broker = canned_broker(answer, tls=server)
    with _connect(broker, tls=ssl.create_default_context(cafile=str(certificate))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        connection.send(ApiKey.FETCH, 12, b"")
        assert _receive(connection, 2) == [b"first", b"second"]
        assert not connection.is_stale(-1)
        for receive in (lambda: _receive(connection, 1)[0], connection.wait_for_response):
            connection.send(ApiKey.FETCH, 12, b"")
            assert receive() == bytes(3_000_000)
    with pytest.raises(AuthenticationError, match=r"certificate of broker .* is not accepted"):
        _connect(broker, tls=ssl.create_default_context())


MIB = 1024 * 1024


class Pieces:
    """A socket that gives these bytes, at most `most` at once."""

    def __init__(self, data: bytes, most: int = 2**30) -> None:
        self.data = memoryview(data)
        self.most = most

    def recv_into(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), self.most, len(self.data))
        buffer[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


@pytest.mark.parametrize("size", [1, 10, 100_000])
@pytest.mark.parametrize("most", [2**30, 30_001])
def test_every_byte_is_kept(size: int, most: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    buffer = FrameBuffer(size)
    source = Pieces(data + b"the next response", most)
    while not buffer.is_full:
        buffer.receive(source)
    assert buffer.view() == data
    assert buffer.view().readonly
    assert source.data == b"the next response"


def test_a_long_announcement_takes_little_memory_in_the_frame_buffer(resident_bytes: Callable[[], int]) -> None:
    source = Pieces(bytes(3 * MIB))
    before = resident_bytes()
    buffer = FrameBuffer(200 * MIB)
    buffer.receive(source)
    assert resident_bytes() - before < 20 * MIB
    assert len(buffer.view()) == 3 * MIB


def test_the_end_of_the_connection() -> None:
    with pytest.raises(ConnectionError, match="closed the connection"):
        FrameBuffer(10).receive(Pieces(b""))


def test_a_request_with_and_without_tagged_fields() -> None:
    plain = request_frame(3, 9, 7, "me", b"body", is_flexible=False)
    assert plain == bytes.fromhex("0000001000030009000000070002") + b"me" + b"body"
    assert request_frame(3, 9, 7, "me", b"body", is_flexible=True) == bytes.fromhex("00000011") + plain[4:16] + b"\0" + b"body"


def test_correlation_ids_stay_positive() -> None:
    assert next_correlation_id(1) == 2
    assert next_correlation_id(2**31 - 1) == 0


def test_the_shortest_response(canned_broker: Any, frame: Callable[[int, bytes], bytes]) -> None:
    with _connect(canned_broker(lambda key, correlation: frame(correlation, b""))) as connection:
        connection.send(ApiKey.FETCH, 11, b"", is_flexible=False)
        assert connection.wait_for_response() == b""
