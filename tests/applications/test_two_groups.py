"""Billing and shipping each read all orders, at their own pace."""

from confluent_kafka import Consumer

from ottla.testing import Broker


class Department:
    """Takes orders one by one, in the order in which they were placed."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        settings = {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})
        self.consumer.subscribe(["orders"])

    def take(self, count: int) -> list[bytes]:
        messages = self.consumer.consume(count, timeout=30)
        self.consumer.commit(asynchronous=False)
        return [message.value() for message in messages]

    def close(self) -> None:
        self.consumer.close()


def test_each_department_reads_all_orders(ottla_broker: Broker) -> None:
    orders = [b"order %d" % number for number in range(10)]
    ottla_broker.produce("orders", orders)
    billing = Department(ottla_broker.bootstrap_servers, "billing")
    shipping = Department(ottla_broker.bootstrap_servers, "shipping")
    assert billing.take(10) == orders
    assert shipping.take(4) == orders[:4]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 10}
    assert ottla_broker.group("shipping").committed() == {("orders", 0): 4}
    ottla_broker.group("billing").wait(state="Stable", members=1, lag=0)
    shipping.close()
    ottla_broker.group("shipping").wait(state="Empty", members=0, lag=6)
    ottla_broker.produce("orders", [b"late"])
    shipping = Department(ottla_broker.bootstrap_servers, "shipping")
    assert shipping.take(7) == [*orders[4:], b"late"]
    assert billing.take(1) == [b"late"]
    billing.close()
    shipping.close()
