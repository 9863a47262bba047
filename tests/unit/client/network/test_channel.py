"""A connection that never waits, against canned bytes."""

import select
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.errors import BrokerUnavailableError, UnsupportedBrokerError
from ottla.client.network.channel import Channel
from ottla.client.network.connection import FRAME_BYTES_MAX, BrokerConnection
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey


def _channel(broker: Any, **options: Any) -> Channel:
    return Channel(BrokerConnection("127.0.0.1", broker.port, client_id="tester", timeout_ms=2_000), **options)


def _receive(channel: Channel, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        assert select.select([channel], [], [], 5)[0], "an answer comes in time"
        bodies += [bytes(body) for body in channel.receive()]
    return bodies


def test_responses_come_in_the_order_of_the_requests(canned_broker: Any, frame: Callable[[int, bytes], bytes]) -> None:
    broker = canned_broker(lambda key, correlation: frame(correlation, b"\x00" + b"answer to %d" % correlation))
    channel = _channel(broker)
    channel.send(ApiKey.FETCH, 12, b"first", is_flexible=True)
    channel.send(ApiKey.FETCH, 12, b"second", is_flexible=True)
    assert _receive(channel, 2) == [b"answer to 1", b"answer to 2"]
    assert broker.requests[1] == struct.pack(">hhi", 1, 12, 1) + b"\x00\x06tester\x00first"
    channel.close()


def test_a_large_response_comes_in_pieces(canned_broker: Any, frame: Callable[[int, bytes], bytes]) -> None:
    channel = _channel(canned_broker(lambda key, correlation: frame(correlation, b"\x00" + bytes(3_000_000))))
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    (body,) = _receive(channel, 1)
    assert body == bytes(3_000_000)
    channel.close()


def test_nothing_to_read_is_not_waited_for(canned_broker: Any) -> None:
    channel = _channel(canned_broker(lambda key, correlation: b""))
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    assert channel.receive() == []
    assert not channel.wants_write
    assert not channel.has_pending
    channel.close()


def test_a_broker_that_hangs_up(canned_broker: Any) -> None:
    channel = _channel(canned_broker(lambda key, correlation: None))
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    with pytest.raises(BrokerUnavailableError, match="lost broker"):
        _receive(channel, 1)
    channel.close()


@pytest.mark.parametrize("size", [0, FRAME_BYTES_MAX + 1])
def test_a_response_of_impossible_size_is_not_read(canned_broker: Any, size: int) -> None:
    channel = _channel(canned_broker(lambda key, correlation: struct.pack(">i", size)))
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    with pytest.raises(PeerError, match="announced an answer"):
        _receive(channel, 1)
    channel.close()


def test_answers_out_of_order_and_without_a_request(canned_broker: Any, frame: Callable[[int, bytes], bytes]) -> None:
    for answer, message in (
        (lambda number: frame(number + 1, b"\0"), "out of order"),
        (lambda number: 2 * frame(number, b"\0"), "without a request"),
    ):
        channel = _channel(canned_broker(lambda key, number, answer=answer: answer(number)))
        channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
        with pytest.raises(PeerError, match=message):
            _receive(channel, 2)
        channel.close()


def test_versions(canned_broker: Any) -> None:
    channel = _channel(canned_broker(lambda key, correlation: b""))
    assert channel.version(ApiKey.FETCH, 12, 16) == 16
    assert channel.version(ApiKey.FETCH, 12, 99) == 18
    with pytest.raises(UnsupportedBrokerError, match="does not speak version 19"):
        channel.version(ApiKey.FETCH, 19, 20)
    with pytest.raises(UnsupportedBrokerError, match="it has no such API"):
        channel.version(ApiKey.JOIN_GROUP, 5, 9)
    channel.close()


def test_an_idle_connection_is_stale(canned_broker: Any) -> None:
    now = [0.0]
    channel = _channel(canned_broker(lambda key, correlation: b""), clock=lambda: now[0])
    assert not channel.is_stale(10_000)
    now[0] = 11
    assert channel.is_stale(10_000)
    assert not channel.is_stale(-1)
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    now[0] = 22
    assert not channel.is_stale(10_000), "it waits for an answer"
    channel.close()


def test_a_long_announcement_takes_little_memory(canned_broker: Any, resident_bytes: Callable[[], int]) -> None:
    channel = _channel(canned_broker(lambda key, correlation: struct.pack(">i", 200 * 1024 * 1024) + bytes(100)))
    channel.send(ApiKey.FETCH, 12, b"", is_flexible=True)
    assert select.select([channel], [], [], 5)[0]
    before = resident_bytes()
    assert channel.receive() == []
    assert resident_bytes() - before < 20 * 1024 * 1024
    channel.close()
