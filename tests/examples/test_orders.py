"""The first test of README.md and docs/testing.md, as it stands there."""

from ottla import Consumer


def test_orders_are_read(ottla_broker):
    ottla_broker.produce("orders", [b"one", b"two"])
    settings = {"group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    assert [message.value() for message in consumer.consume(2, 10)] == [b"one", b"two"]
    consumer.close()
    assert ottla_broker.group("billing").committed() == {("orders", 0): 2}
