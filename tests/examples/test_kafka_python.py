"""The recipe for kafka-python, and its admin client."""

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from ottla.testing import Broker


def test_kafka_python(ottla_broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers)
    producer.send("orders", b"one").get(timeout=30)
    producer.close()
    assert ottla_broker.values("orders") == [b"one"]
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=ottla_broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    assert next(consumer).value == b"one"
    consumer.close()
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}


def test_the_admin_client_of_kafka_python(ottla_broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers)
    admin.create_topics([NewTopic("orders", num_partitions=3, replication_factor=1)])
    ottla_broker.produce("orders", [b"a", b"b", b"c"])
    assert {record.partition for record in ottla_broker.consume("orders", 3)} == {0, 1, 2}
    admin.delete_topics(["orders"])
    assert "orders" not in admin.list_topics()
    admin.close()
