"""The recipe for suites that leave Docker."""

from confluent_kafka import Producer

from ottla.testing import KafkaContainer


def test_with_the_methods_of_testcontainers() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_env("KAFKA_NUM_PARTITIONS", 3) as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
        producer.produce("orders", b"one")
        assert producer.flush(30) == 0
