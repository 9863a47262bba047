"""Payments that fail are tried again, at most three times, and then become dead letters."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer

from ottla.testing import Broker

ATTEMPTS = 3


class CardDeclined(Exception):
    pass


class PaymentService:
    """Charges what is in `payments`; a failure goes to `payments.retry`, the third one of a payment to `payments.dead`."""

    def __init__(self, bootstrap_servers: str, charge: Callable[[bytes], None]) -> None:
        self.servers = {"bootstrap.servers": bootstrap_servers}
        self.producer = Producer(self.servers)
        self.charge = charge

    def run(self, stopping: Event) -> None:
        consumer = Consumer({**self.servers, "group.id": "payments", "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe(["payments", "payments.retry"])
        while not stopping.is_set():
            for message in consumer.consume(1, timeout=0.1):
                if message.error():
                    raise KafkaException(message.error())
                self.handle(message)
                consumer.commit(message, asynchronous=False)
        consumer.close()

    def handle(self, message: Message) -> None:
        attempt = int(dict(message.headers() or [])["attempt"]) if message.topic() == "payments.retry" else 1
        try:
            self.charge(message.value())
        except CardDeclined as error:
            topic, headers = "payments.retry", {"attempt": str(attempt + 1)}
            if attempt == ATTEMPTS:
                topic, headers = "payments.dead", {"attempts": str(attempt), "error": str(error)}
            self.producer.produce(topic, message.value(), message.key(), headers=headers)
            self.producer.flush()


@pytest.fixture
def charged() -> list[bytes]:
    return []


def test_a_payment_that_always_fails_becomes_a_dead_letter(
    ottla_broker: Broker, running: Callable[..., AbstractContextManager[None]], charged: list[bytes]
) -> None:
    def charge(payment: bytes) -> None:
        charged.append(payment)
        if payment == b"stolen" or (payment == b"flaky" and charged.count(payment) == 1):
            raise CardDeclined(f"declined: {payment!r}")

    for topic in ("payments", "payments.retry", "payments.dead"):
        ottla_broker.create_topic(topic)
    ottla_broker.produce("payments", [("ann", b"5"), ("bob", b"stolen"), ("cem", b"flaky"), ("dee", b"7")])
    with running(PaymentService(ottla_broker.bootstrap_servers, charge).run):
        (dead,) = ottla_broker.consume("payments.dead", 1)
        ottla_broker.group("payments").wait(lag=0)
    assert (dead.key, dead.value) == (b"bob", b"stolen")
    assert dict(dead.headers) == {"attempts": b"3", "error": b"declined: b'stolen'"}
    assert sorted(charged) == [b"5", b"7", b"flaky", b"flaky", b"stolen", b"stolen", b"stolen"]
    assert ottla_broker.values("payments.dead") == [b"stolen"]
    assert ottla_broker.group("payments").committed() == {("payments", 0): 4, ("payments.retry", 0): 3}
