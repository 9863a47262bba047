"""testcontainers' methods, without Docker."""

import pytest

from ottla.config import ConfigError
from ottla.testing import KafkaContainer


def test_the_usual_lines() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as kafka:
        assert kafka.get_bootstrap_server() == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(kafka.port)}"
        assert kafka.broker is not None
        kafka.broker.produce("orders", [b"one"])
        assert kafka.broker.values("orders") == [b"one"]
    with pytest.raises(RuntimeError, match=r"use `with KafkaContainer\(\) as kafka:`"):
        kafka.get_bootstrap_server()
    kafka.stop()


def test_settings_are_those_of_the_images() -> None:
    kafka = KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", 3).with_env("KAFKA_HEAP_OPTS", "-Xmx1g").with_cluster_id("x")
    with kafka:
        assert kafka.broker is not None
        kafka.broker.produce("orders", [b"a", b"b", b"c"])
        assert {record.partition for record in kafka.broker.consume("orders", 3)} == {0, 1, 2}
    with pytest.raises(ConfigError):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()
