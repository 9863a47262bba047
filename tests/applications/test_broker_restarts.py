"""Invoices are sent on while the broker restarts, and none is lost."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.testing import Broker

UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}


class Forwarder:
    """Moves messages from one topic to another; connection errors are the clients' business."""

    def __init__(self, bootstrap_servers: str) -> None:
        servers = {"bootstrap.servers": bootstrap_servers}
        self.producer = Producer(servers)
        self.consumer = Consumer({**servers, "group.id": "forwarder", "auto.offset.reset": "earliest", "enable.auto.commit": False})

    def run(self, stopping: Event) -> None:
        self.consumer.subscribe(["invoices"])
        while not stopping.is_set():
            messages = [message for message in self.consumer.consume(10, timeout=0.05) if not message.error()]
            for message in messages:
                self.producer.produce("outbox", message.value())
            if messages:
                self.producer.flush()
                self.commit(stopping)
        self.consumer.close()

    def commit(self, stopping: Event) -> None:
        """Again and again while the broker is not there."""
        while not stopping.is_set():
            try:
                self.consumer.commit(asynchronous=False)
            except KafkaException as failure:
                if not failure.args[0].retriable() and failure.args[0].code() not in UNREACHABLE:
                    raise
            else:
                return


def test_invoices_survive_a_restart_of_the_broker(ottla_broker: Broker, running: Callable[..., AbstractContextManager[None]]) -> None:
    invoices = [b"invoice %d" % number for number in range(100)]
    ottla_broker.create_topic("invoices")
    ottla_broker.produce("invoices", invoices[:50])
    forwarder, shop = Forwarder(ottla_broker.bootstrap_servers), Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    assert "invoices" in shop.list_topics(timeout=60).topics
    with running(forwarder.run):
        ottla_broker.consume("outbox", 20)
        ottla_broker.stop()
        for invoice in invoices[50:]:
            shop.produce("invoices", invoice)
        assert shop.flush(0.05) == 50, "they wait in the producer"
        ottla_broker.start()
        assert shop.flush(30) == 0
        ottla_broker.group("forwarder").wait(state="Stable", members=1, lag=0)
    assert set(ottla_broker.values("outbox")) == set(invoices)
    assert ottla_broker.group("forwarder").committed() == {("invoices", 0): 100}
