"""Configurations of public projects (`tests/data/consumer_configurations.json`) are taken as they are, and their callbacks are called.

The file has names and values of properties; addresses, users and passwords are not those of the projects.
"""

import asyncio
import json
import socket
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ottla
from ottla.testing import Broker
from ottla.testing.waiting import wait_until

CONFIGURATIONS = json.loads((Path(__file__).parents[1] / "data" / "consumer_configurations.json").read_text())
NUMBERS = count()
CALLBACK = "a function"
# What would be unsafe, or give other records, if it were ignored.
REFUSED = {
    "adc/consumer.py": "check.crcs can only be true",
    "confluent_kafka_helpers/loader.py": "offset.store.method can only be broker",
    "examples/fips/fips_consumer.py": "ssl.providers is not supported",
}


def of_library(library: str) -> list[Any]:
    found = [each for each in CONFIGURATIONS if each["library"] == library]
    return [pytest.param(each, id=f"{each['project']}/{each['where']}") for each in found]


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    made = f"topic-{next(NUMBERS)}"
    broker.create_topic(made, partitions=1)
    return made


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Calls:
    """The names of callbacks that were called."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def callback(self, name: str) -> Any:
        def call(*_: Any) -> None:
            self.names.add(name)

        return SimpleNamespace(log=call) if name == "logger" else call


@pytest.mark.parametrize("configuration", of_library("confluent-kafka"))
def test_a_configuration_for_confluent_kafka(configuration: Any, broker: Broker, topic: str, closed_port: int) -> None:
    calls, names = Calls(), {name for name, value in configuration["properties"].items() if value == CALLBACK}
    # An address that leads nowhere, so that there is an error to tell.
    nowhere = f"127.0.0.1:{closed_port}, " if "error_cb" in names else ""
    config = {"bootstrap.servers": f"{nowhere}{broker.bootstrap_servers}", "group.id": topic}
    config |= configuration["properties"] | {name: calls.callback(name) for name in names}
    if configuration["where"] in REFUSED:
        with pytest.raises(ottla.KafkaException, match=REFUSED[configuration["where"]]):
            ottla.Consumer(config)
        return
    if config.get("security.protocol"):
        ottla.Consumer(config).close()
    # The broker has no TLS and no SASL, and statistics need not be waited for.
    quick = {"security.protocol": "PLAINTEXT"} | ({"statistics.interval.ms": 20} if "stats_cb" in names else {})
    with ottla.Consumer(config | quick) as consumer:
        wanted = {f"on_{what}" for what in ("assign", "revoke")}
        consumer.subscribe([topic], **{name: calls.callback(name) for name in wanted})
        messages: list[Any] = []

        def read() -> None:
            broker.produce(topic, [b"value"])
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                messages.append(message)
                consumer.commit(message=message, asynchronous=True)

        wait_until(lambda: messages and calls.names >= names | {"on_assign"}, "a record, and every callback", read)
    assert calls.names == names | wanted


@pytest.mark.parametrize("configuration", of_library("aiokafka"))
def test_a_configuration_for_aiokafka(configuration: Any, broker: Broker, topic: str) -> None:
    calls, properties = Calls(), configuration["properties"]
    deserializers = {name: lambda key: key and key.decode() for name, value in properties.items() if value == CALLBACK}

    class Listener(ottla.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            calls.names.add("revoked")

        async def on_partitions_assigned(self, assigned: Any) -> None:
            calls.names.add("assigned")
            if properties.get("auto_offset_reset") != "earliest":
                await consumer.seek_to_beginning(*assigned)

    async def run() -> None:
        nonlocal consumer
        consumer = ottla.AsyncConsumer(bootstrap_servers=broker.bootstrap_servers, **properties | deserializers)
        consumer.subscribe([topic], listener=Listener())
        async with consumer:
            if "group_id" not in properties:
                await consumer.seek_to_beginning()
            assert (await consumer.getone()).key == ("key" if deserializers else b"key")
            if "group_id" in properties:
                await consumer.commit()

    consumer: Any = None
    broker.produce(topic, [(b"key", b"value")])
    asyncio.run(asyncio.wait_for(run(), 60))
    assert calls.names == ({"revoked", "assigned"} if "group_id" in properties else set())


def test_all_refusals_come_in_one_message() -> None:
    refused = {"sasl.kerberos.keytab": "k", "check.crcs": False, "ssl.providers": "fips", "no.such": 1, "queued.min.messages": 0}
    with pytest.raises(ottla.KafkaException) as raised:
        ottla.Consumer({"bootstrap.servers": "h:1", "group.id": "g"} | refused)
    assert len(raised.value.args[0].str().splitlines()) == len(refused)
