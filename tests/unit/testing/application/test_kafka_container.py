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


def test_a_port_of_the_test_and_what_stands_for_dockers_container() -> None:
    with KafkaContainer() as first:
        port = first.get_exposed_port(9093)
    with KafkaContainer().with_bind_ports(9093, port) as kafka:
        assert kafka.get_exposed_port(9093) == port
        assert kafka.broker is not None
        kafka.broker.produce("orders", [b"one"])
        container = kafka.get_wrapped_container()
        container.kill()
        container.reload()
        assert container.status == "exited"
        container.restart()
        assert (container.status, kafka.broker.values("orders"), kafka.get_exposed_port(9093)) == ("running", [b"one"], port)
        code, output = kafka.exec(["kafka-topics", "--list"])
        assert code == 127
        assert output.startswith(b"kafka-topics: not found: there is no container")
    with pytest.raises(RuntimeError, match="is not running"):
        kafka.get_wrapped_container()


def test_a_container_that_is_stopped_twice() -> None:
    with KafkaContainer() as kafka:
        kafka.get_wrapped_container().stop()
