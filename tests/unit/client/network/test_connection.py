"""One connection against canned bytes: order, bounds, timeouts, and peers that are no brokers."""

import itertools
import struct
import time
from collections.abc import Callable
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
    readable,
    request_frame,
    response_body,
    response_bytes,
    unsupported,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey

REQUEST = MetadataRequest(
    topics=(), allow_auto_topic_creation=False, include_cluster_authorized_operations=False, include_topic_authorized_operations=False
)


def _connect(broker: Any, **options: Any) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", broker.port, client_id="tester", **{"timeout_ms": 2_000, **options})


def test_responses_come_in_the_order_of_the_requests(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    broker = canned_broker(lambda key, correlation: frame(correlation, b"\x00" + b"answer to %d" % correlation))
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"first")
        connection.send(ApiKey.FETCH, 12, b"second")
        assert [bytes(connection.receive()) for _ in range(2)] == [b"answer to 2", b"answer to 3"]
    assert broker.requests[1] == struct.pack(">hhi", 1, 12, 2) + b"\x00\x06tester\x00first"


def test_a_response_is_read_only_memory(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: frame(correlation, b"\x00abc"))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        assert connection.receive().readonly


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
            connection.receive()


def test_a_long_announcement_takes_little_memory(canned_broker: Any, resident_bytes: Callable[[], int]):
    broker = canned_broker(lambda key, correlation: struct.pack(">i", 200 * 1024 * 1024) + bytes(100))
    resident: list[int] = []

    def clock() -> float:  # it is looked at before each piece is read
        resident.append(resident_bytes())
        return time.monotonic()

    with _connect(broker, clock=clock) as connection:
        connection.timeout_ms = 100
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match="no answer within 100 ms"):
            connection.receive()
    assert max(resident) - resident[0] < 20 * 1024 * 1024


def test_a_response_to_another_request_blames_the_peer(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: frame(correlation + 1, b"\x00"))) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(PeerError, match="out of order"):
            connection.receive()


def test_silence_is_bounded(canned_broker: Any):
    with _connect(canned_broker(lambda key, correlation: b""), timeout_ms=50) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match="no answer within 50 ms"):
            connection.receive()


def test_a_request_has_the_timeout_of_its_own_call(canned_broker: Any, frame: Callable[[int, bytes], bytes]):
    with _connect(canned_broker(lambda key, correlation: frame(correlation, b"\x00"))) as connection:
        connection.timeout_ms = 1_500
        connection.send(ApiKey.FETCH, 12, b"")
        assert connection._socket.gettimeout() == 1.5, "not what was left of the last one"


def test_bytes_that_trickle_in_are_bounded_too(canned_broker: Any):
    clock = itertools.chain([0.0] * 5, [0.0] * 4, [61.0])  # five for ApiVersions, then: sent, start, length, 50 of 100 bytes; time is up
    broker = canned_broker(lambda key, correlation: struct.pack(">i", 100) + bytes(50))
    with _connect(broker, timeout_ms=60_000, clock=lambda: next(clock)) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match="no answer within 60000 ms"):
            connection.receive()


def test_a_broker_that_hangs_up_is_named(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: None)
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(BrokerUnavailableError, match=rf"lost broker 127.0.0.1:{broker.port}: the broker closed the connection"):
            connection.receive()


def test_no_broker_at_all(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: None)
    broker.close()
    with pytest.raises(BrokerUnavailableError, match=f"no connection to broker 127.0.0.1:{broker.port}"):
        _connect(broker)


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
        assert bytes(connection.receive()) == b"answer"
        assert [connection.speaks(*asked) for asked in ((ApiKey.FETCH, 11), (ApiKey.FETCH, 12), (ApiKey.METADATA, 14), (999, 0))] == [
            True,
            True,
            False,
            False,
        ]
    assert broker.requests[1] == struct.pack(">hhi", 1, 11, 2) + b"\x00\x06testerbody"


def test_a_connection_is_stale_when_it_ended_or_was_idle_or_its_session_ends(canned_broker: Any):
    now = [100.0]
    broker = canned_broker(lambda key, correlation: None)
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
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        assert readable([connection], 5_000) == [connection], "the broker hung up"
    assert connection.is_stale(-1), "it is closed"


def test_a_broker_with_tls_is_recognized(canned_broker: Any):
    broker = canned_broker(lambda key, correlation: b"\x15\x03\x03\x00\x02\x02\x0a")
    with _connect(broker) as connection:
        connection.send(ApiKey.FETCH, 12, b"")
        with pytest.raises(AuthenticationError, match=r"security.protocol must be SSL or SASL_SSL"):
            connection.receive()


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


@pytest.mark.parametrize("size", [4, FRAME_BYTES_MAX])
def test_the_length_of_a_response(size: int) -> None:
    assert response_bytes("b:1", size.to_bytes(4, "big")) == size


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_impossible_lengths_are_refused(size: int) -> None:
    with pytest.raises(PeerError, match=f"broker b:1 announced an answer of {size} bytes"):
        response_bytes("b:1", size.to_bytes(4, "big", signed=True))


def test_the_body_of_a_response() -> None:
    assert response_body("b:1", memoryview(b"\0\0\0\7body"), 7, is_flexible=False) == b"body"
    assert response_body("b:1", memoryview(b"\0\0\0\7\0body"), 7, is_flexible=True) == b"body"
    with pytest.raises(PeerError, match="broker b:1 answered out of order"):
        response_body("b:1", memoryview(b"\0\0\0\6body"), 7, is_flexible=False)


def test_what_a_broker_does_not_support() -> None:
    assert "does not speak version 5 of API 1 (it speaks 0 to 4): a newer one does" in str(unsupported("b:1", 1, 5, (0, 4)))
    assert "(it has no such API)" in str(unsupported("b:1", 1, 5, None))
