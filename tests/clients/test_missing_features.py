"""Features that are not built yet: each client has an error at once, though it would wait for a minute, and the broker's log names it."""

import time
from collections.abc import Iterator

import pytest

from ottla.broker import Broker
from ottla.testing.raw_client import Disconnected, RawClient

TIME_LIMIT_S = 60
AT_ONCE_S = 10


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_what_is_not_served_is_said_once_a_client_and_not_once_a_connection(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    describe_broker_in_version_0 = bytes.fromhex("0020 0000 00000007 0003") + b"app" + bytes.fromhex("00000001 04 0001 31 ffffffff")
    for _ in range(2):
        with RawClient(broker.bootstrap_servers) as client:
            client.send_frame(describe_broker_in_version_0)
            with pytest.raises(Disconnected):
                client.receive_frame()
    asks = "client app of /127.0.0.1 asks for"
    assert caplog.messages == [f"{asks} version 0 of DESCRIBE_CONFIGS, which is served in versions 1 to 4: its connection is closed"]


def test_librdkafkas_consumer_protocol_is_refused_at_once_where_it_is_disabled() -> None:
    from confluent_kafka import Consumer, KafkaError

    with Broker(config={"group.coordinator.rebalance.protocols": "classic"}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "app", "group.id": "g", "group.protocol": "consumer"}
        consumer = Consumer({**settings, "log_level": 0})
        consumer.subscribe(["t"])
        began = time.monotonic()
        message = consumer.poll(TIME_LIMIT_S)
        assert time.monotonic() - began < AT_ONCE_S
        assert message is not None
        assert message.error().code() == KafkaError._FATAL
        assert "API version not supported" in message.error().str()
        consumer.close()
