"""The recipe for confluent-kafka: the first test of the page."""

from confluent_kafka import Consumer, Producer

from ottla.testing import Broker


def sum_orders(bootstrap_servers: str, count: int) -> None:
    """The application: adds up `count` orders and produces the total."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "totals", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    total = sum(int(message.value()) for message in consumer.consume(count, timeout=30))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce("totals", str(total))
    producer.flush()
    consumer.close()


def test_orders_are_added_up(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1", ("customer-7", b"2")])
    sum_orders(ottla_broker.bootstrap_servers, count=2)
    assert ottla_broker.values("totals") == [b"3"]
    assert ottla_broker.group("totals").committed() == {("orders", 0): 2}
