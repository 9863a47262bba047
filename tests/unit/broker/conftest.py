"""A broker's APIs without a socket: requests are encoded by kio, dispatched, and their answers decoded by kio."""

import asyncio
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.broker import messages
from ottla.broker.cluster_state import ClusterState
from ottla.broker.dispatch import dispatch, read_request
from ottla.core.config import BrokerConfig
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.held_executor import HeldExecutor


class WaitingExecutor(Executor):
    """Runs nothing before `run` is called: what happens meanwhile is the test's."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.jobs.append((future, partial(call, *given, **named)))
        return future

    def run(self) -> None:
        """Runs the first job."""
        future, call = self.jobs.pop(0)
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is the future's
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future, _ in self.jobs:
            future.cancel()


class Api:
    """`ask(key, version, **fields)` → the decoded answer, or None when there is none; `parked` requests are awaited."""

    def __init__(
        self,
        config: dict[str, str] | None = None,
        files: MemoryFiles | None = None,
        brokers: int = 1,
        opening_executor: Executor | None = None,
    ) -> None:
        self.runner = asyncio.Runner()
        self.now_ms = 1_700_000_000_000
        self.time_of_day_offset_ms = 0
        self.files = files or MemoryFiles()
        self.cluster = ClusterState(
            self.files,
            BrokerConfig(config, brokers=brokers),
            brokers=brokers,
            clock=self.time_of_day_ms,
            timer_clock=lambda: self.now_ms,
            opening_executor=opening_executor,
        )
        self.node = self.cluster.nodes[1]
        self.node.host, self.node.port = "127.0.0.1", 9092
        self.runner.run(self._open())

    def time_of_day_ms(self) -> int:
        return self.now_ms + self.time_of_day_offset_ms

    async def _open(self) -> None:
        self.cluster.open()
        await self.cluster.loaded(5)

    def on(self, broker: int) -> "Api":
        """The same, asking another broker from now on."""
        self.node = self.cluster.nodes[broker]
        return self

    def settle(self) -> None:
        """Waits until every coordinator has read its log."""

        self.runner.run(self.cluster.loaded(5))

    def opened(self, topic: str, number: int) -> Any:
        """The partition, opened if need be."""
        return self.runner.run(self.cluster.partitions.open(self.cluster.topics.get(topic), number))

    def close(self) -> None:
        async def close() -> None:
            self.cluster.close()

        self.runner.run(close())
        self.runner.close()

    @staticmethod
    def encode(key: int, version: int, fields: dict[str, Any], client_id: str | None = "test") -> bytearray:
        """A request's frame, without its size."""
        entity = messages.entity_of(key, version, EntityType.request)
        header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
        header += b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id.encode()
        if messages.is_flexible(key, version):
            header += b"\0"
        out = io.BytesIO()
        entity_writer(entity)(out, messages.fitter(entity)(fields))
        return bytearray(header + out.getvalue())

    def start(self, key: int, version: int, /, **fields: Any) -> "asyncio.Future[bytes]":
        """Sends a request; the future has the answer's bytes when it comes."""

        async def send() -> "asyncio.Future[bytes]":
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            api, request = read_request(memoryview(self.encode(key, version, fields)), "/127.0.0.1")
            request.send = lambda parts: answer.set_result(b"".join(parts))
            dispatch(self.node, api, request)
            return answer

        return self.runner.run(send())

    def finish(self, key: int, version: int, answer: "asyncio.Future[bytes]") -> Any:
        async def wait() -> bytes:
            return await asyncio.wait_for(answer, 5)

        data = self.runner.run(wait())
        if not data:
            return None
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert int.from_bytes(data[4:8], "big") == 7
        at = 9 if key != messages.API_VERSIONS and messages.is_flexible(key, version) else 8
        body, size = entity_reader(messages.entity_of(key, version, EntityType.response))(data, at)
        assert at + size == len(data), f"{api_key_map[key]} v{version}: bytes left over"
        again = io.BytesIO()
        entity_writer(type(body))(again, body)
        assert again.getvalue() == data[at:], f"{api_key_map[key]} v{version}: kio writes other bytes"
        return body

    def step(self, iterations: int = 5) -> None:
        """Lets the loop do what is to be done at once."""

        async def iterate() -> None:
            for _ in range(iterations):
                await asyncio.sleep(0)

        self.runner.run(iterate())

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        return self.finish(key, version, self.start(key, version, **fields))


@pytest.fixture
def make_api() -> Iterator[type[Api]]:
    """Makes brokers with settings of one's own; they are closed at the end."""
    made: list[Api] = []

    def make(
        config: dict[str, str] | None = None,
        files: MemoryFiles | None = None,
        brokers: int = 1,
        opening_executor: Executor | None = None,
    ) -> Api:
        made.append(Api(config, files, brokers, opening_executor))
        return made[-1]

    yield make  # type: ignore[misc]
    for api in made:
        api.close()


@pytest.fixture
def held() -> HeldExecutor:
    """Opens partitions when the test says so."""
    return HeldExecutor()


@pytest.fixture
def api(make_api) -> Api:
    """One broker in memory with Kafka's defaults."""
    return make_api()


@pytest.fixture
def waiting_executor() -> WaitingExecutor:
    """An executor that the test runs."""
    return WaitingExecutor()
