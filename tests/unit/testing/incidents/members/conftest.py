"""The life of one member on Ottla's broker, with any client."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.clients.topics import create_topic
from ottla.testing.incidents.members.program import Slowness
from ottla.testing.incidents.members.settings import MemberSettings

SECONDS_MAX = 20


@pytest.fixture
def run_async() -> Callable[[Any], None]:
    """Run a coroutine to its end."""
    return lambda coroutine: asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.fixture
def live_member() -> Callable[..., Awaitable[None]]:
    """`await live_member(make_client, name, **settings)`: it joins, polls, subscribes to another topic, unsubscribes and closes."""

    async def live(make_client: Any, name: str, **changes: Any) -> None:
        with Broker(config={"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}) as broker:
            create_topic(broker.bootstrap_servers, "members", 2)
            create_topic(broker.bootstrap_servers, "others", 1)
            fields: dict[str, Any] = {"topics": ("members",), "heartbeat_ms": 300, "metadata_ms": 300} | changes
            settings = MemberSettings(name=name, client=name, client_id=name, servers=broker.bootstrap_servers, group="g", **fields)
            client = make_client(settings, Slowness())
            await client.start()
            await _polled(client, {"members-0", "members-1"})
            if settings.pattern is None:
                await client.subscribe(["others"])
                await _polled(client, {"others-0"})
            if settings.instance_id is None:
                await client.unsubscribe()
            await client.close()
            with RawClient(broker.bootstrap_servers) as raw:
                group = raw.call(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0]
            assert len(group.members) == (1 if settings.instance_id else 0), "a dynamic member leaves, a static one does not"

    return live


async def _polled(client: Any, expected: set[str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while client.assignment() != expected:
        assert time.monotonic() < deadline, f"{client.assignment()} instead of {expected}"
        await client.poll()
