"""The recipe for unittest."""

from confluent_kafka import Producer

from ottla.testing import OttlaCase


class OrdersTest(OttlaCase):
    ottla_config = {"num.partitions": 2}

    def test_orders_are_produced(self) -> None:
        producer = Producer({"bootstrap.servers": self.ottla_broker.bootstrap_servers})
        producer.produce("orders", b"one")
        producer.flush()
        assert self.ottla_broker.values("orders") == [b"one"]
