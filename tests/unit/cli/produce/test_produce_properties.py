"""Tests of the producer's properties."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.produce.properties import Target, producer_properties

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def properties(**given: Any) -> dict[str, Any]:
    found = producer_properties(Target(bootstrap_server="h:1", **given))
    Producer(found)  # librdkafka takes all of them
    return found


def test_defaults() -> None:
    found = properties()
    assert (found["bootstrap.servers"], found["delivery.timeout.ms"]) == ("h:1", 30_000)
    assert (found["partitioner"], found["enable.idempotence"]) == ("murmur2_random", True)


def test_options_and_single_settings() -> None:
    found = properties(timeout_s=0.5, compression="lz4", config=[("linger.ms", "50"), ("client.id", "mine")])
    assert (found["delivery.timeout.ms"], found["compression.type"], found["linger.ms"], found["client.id"]) == (500, "lz4", "50", "mine")


def test_a_file_has_kafkas_names(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\nclient.id=x\ngroup.id=g\n")
    found = properties(command_config=str(file))
    assert (found["security.protocol"], found["sasl.username"], found["sasl.password"]) == ("SASL_PLAINTEXT", "u", "p")
    assert found["client.id"] == "x"
    assert "group.id" not in found
    file.write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(CommandFailed, match=r"client.properties: sasl.mechanism must be one of"):
        properties(command_config=str(file))


@pytest.mark.parametrize("name", ["bootstrap.servers", "delivery.timeout.ms", "message.timeout.ms"])
def test_what_other_options_decide(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be set by --config"):
        properties(config=[(name, "1")])
