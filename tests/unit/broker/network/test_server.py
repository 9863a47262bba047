"""A server's life: it accepts, takes no more requests, and closes what is open. Idle connections are in test_server_limits."""

import asyncio

import pytest

from ottla.broker.event_loop_batch import EventLoopBatch
from ottla.broker.network.connection_limits import ConnectionLimits
from ottla.broker.network.descriptors import Descriptors
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.network.pipelining import Pipelining
from ottla.broker.network.request_memory import RequestMemory
from ottla.broker.network.request_scheduler import RequestScheduler
from ottla.broker.network.response_memory import ResponseMemory
from ottla.broker.network.server import Server
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.request import Request
from ottla.core.config import BrokerConfig
from ottla.core.metadata.resource_configs import ResourceConfigs
from ottla.core.wire.api_keys import ApiKey

API_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\xff\xff"


def answer(request: Request) -> None:
    request.reply_body([b"ok"])


@pytest.fixture
def server() -> Server:
    api = Api(key=ApiKey.API_VERSIONS, versions=range(1), handle=answer).bind({})
    return Server(
        dispatcher=Dispatcher({api.key: api}, RequestScheduler()),
        config=BrokerConfig(),
        connection_limits=ConnectionLimits(ResourceConfigs(1, BrokerConfig().text)),
        descriptors=Descriptors(None, 0),
        event_loop_batch=EventLoopBatch(),
        pipelining=Pipelining(),
        request_memory=RequestMemory(1 << 20),
        response_memory=ResponseMemory(),
    )


def test_it_serves_until_it_stops(server: Server) -> None:
    async def live() -> None:
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(API_VERSIONS)
        assert await reader.readexactly(10) == b"\0\0\0\6\0\0\0\7ok"
        server.stop_reading()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(API_VERSIONS)
        await asyncio.sleep(0.05)
        assert len(server.connections) == 1, "it is open, and is not read"
        server.stop()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        assert not server.connections
        writer.close()

    asyncio.run(live())


def test_a_port_that_is_taken(server: Server) -> None:
    async def live() -> None:
        port = await server.start("127.0.0.1", 0)
        with pytest.raises(OSError):
            await server.start("127.0.0.1", port)
        server.stop_reading()
        server.stop()

    asyncio.run(live())
