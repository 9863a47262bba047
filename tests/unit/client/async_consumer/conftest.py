"""A broker in this process for all tests of the consumer in an event loop, and consumers of it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.testing import Broker

SETTINGS = {"auto_offset_reset": "earliest", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(config={"group.min.session.timeout.ms": 200}) as made:
        yield made


@pytest.fixture
def new_topic(broker: Broker) -> Callable[..., str]:
    """`new_topic(partitions, records)`: values 0, 1, ... in turn in each partition."""

    def topic(partitions: int = 1, records: int = 0) -> str:
        name = f"topic-{next(_NUMBERS)}"
        broker.create_topic(name, partitions)
        for partition in range(partitions):
            if values := [b"%d" % number for number in range(partition, records, partitions)]:
                broker.produce(name, values, partition=partition)
        return name

    return topic


@pytest.fixture
def run(broker: Broker) -> Callable[..., Any]:
    """`run(test, topic, ..., argument=...)`: awaits `test(consumer)`, with a started consumer, which is stopped afterwards."""

    def consume(test: Callable[[ottla.AsyncConsumer], Awaitable[Any]], *topics: str, **arguments: Any) -> Any:
        async def with_consumer() -> Any:
            group = {"group_id": f"group-{next(_NUMBERS)}"}
            given = {"bootstrap_servers": broker.bootstrap_servers} | SETTINGS | group | arguments
            async with ottla.AsyncConsumer(*topics, **given) as consumer:
                return await asyncio.wait_for(test(consumer), 30)

        return asyncio.run(with_consumer())

    return consume
