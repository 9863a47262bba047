"""The recipe for an application in another language, here Java: a child process with the address."""

import subprocess
from typing import Any

import pytest

from ottla.testing import Broker


@pytest.fixture
def java_application(reference: Any) -> list[str]:
    """The command line of a Java application: Apache Kafka's console consumer. Skipped where Java or its jars are missing."""
    command: list[str] = reference.java_command("org.apache.kafka.tools.consumer.ConsoleConsumer")
    return command


@pytest.mark.kafka
def test_a_java_process(ottla_broker: Broker, java_application: list[str]) -> None:
    ottla_broker.produce("orders", [b"one", b"two"])
    options = ["--bootstrap-server", ottla_broker.bootstrap_servers, "--topic", "orders", "--group", "billing"]
    limits = ["--from-beginning", "--max-messages", "2"]
    ran = subprocess.run([*java_application, *options, *limits], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["one", "two"]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 2}
