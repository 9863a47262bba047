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

from ottla.broker.clock import monotonic_s
from ottla.broker.composition import Components
from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network import request as protocol_api
from ottla.broker.network.dispatch import Dispatcher, MissingFeatures
from ottla.broker.network.request import Authorizer, Session
from ottla.broker.network.scheduling import RequestScheduler
from ottla.config import BrokerConfig
from ottla.log.file_system import MemoryFiles
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire import messages
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.held_executor import HeldExecutor
from tests.support.kit.sessions import client_session, listen


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


class Asking:
    """`ask(key, version, **fields)` → the decoded answer, or None when there is none; `parked` requests are awaited."""

    runner: asyncio.Runner
    dispatcher: Dispatcher
    session: Session = client_session()

    @staticmethod
    def encode(key: int, version: int, fields: dict[str, Any], client_id: str | None = "test") -> bytearray:
        """A request's frame, without its size."""
        entity = messages.request_class(key, version)
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
            api, request = self.dispatcher.read_request(memoryview(self.encode(key, version, fields)), self.session)
            request.send = lambda parts: answer.set_result(b"".join(parts))
            self.dispatcher.dispatch(api, request)
            return answer

        return self.runner.run(send())

    def finish(self, key: int, version: int, answer: "asyncio.Future[bytes]") -> Any:
        async def wait() -> bytes:
            return await asyncio.wait_for(answer, 60)

        data = self.runner.run(wait())
        if not data:
            return None
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert int.from_bytes(data[4:8], "big") == 7
        at = 9 if key != ApiKey.API_VERSIONS and messages.is_flexible(key, version) else 8
        body, size = entity_reader(messages.response_class(key, version))(data, at)
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


class OneApi(Asking):
    """One API with the collaborators that a test gives it, and nothing else of a broker."""

    def __init__(self, api: protocol_api.Api, **collaborators: object) -> None:
        self.runner = asyncio.Runner()
        scheduler = RequestScheduler()
        apis = {api.key: api.bind({"scheduler": scheduler, **collaborators})}
        self.dispatcher = Dispatcher(apis, scheduler, MissingFeatures(monotonic_s))


class Api(Asking):
    """A whole broker, or several, in memory."""

    def __init__(
        self,
        config: dict[str, str] | None = None,
        files: MemoryFiles | None = None,
        brokers: int = 1,
        opening_executor: Executor | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.runner = asyncio.Runner()
        self.now_ms = 1_700_000_000_000
        self.time_of_day_offset_ms = 0
        self.files = files or MemoryFiles()
        self.cluster = Components(
            self.files,
            BrokerConfig(config, brokers=brokers),
            brokers=brokers,
            clock=self.time_of_day_ms,
            timer_clock=lambda: self.now_ms,
            opening_executor=opening_executor,
            authorizer=authorizer,
        )
        self.node = self.cluster.brokers.nodes[1]
        for node in self.cluster.brokers.nodes.values():
            listen(node, "127.0.0.1", 9091 + node.id)
        self.session = client_session(partial(self.cluster.brokers.endpoint, "PLAINTEXT"), authorizer=self.cluster.authorizer)
        self.runner.run(self._open())

    def time_of_day_ms(self) -> int:
        return self.now_ms + self.time_of_day_offset_ms

    async def _open(self) -> None:
        self.cluster.open()
        self.use()
        await self.cluster.loaded(5)

    @property
    def groups(self) -> GroupRouter:
        """The groups of the broker that is asked."""
        return self.cluster.groups[self.node.id]

    @property
    def dispatcher(self) -> Dispatcher:  # type: ignore[override]
        """The requests of the broker that is asked."""
        return self.dispatchers[self.node.id]

    def use(self, **components: Any) -> None:
        """Replaces components by name; the handlers of every broker use them from now on."""
        for name, component in components.items():
            setattr(self.cluster, name, component)
        self.dispatchers = {node.id: self.cluster.dispatcher(node) for node in self.cluster.brokers.nodes.values()}

    def on(self, broker: int) -> "Api":
        """The same, asking another broker from now on."""
        self.node = self.cluster.brokers.nodes[broker]
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


@pytest.fixture
def make_api() -> Iterator[type[Api]]:
    """Makes brokers with settings of one's own; they are closed at the end."""
    made: list[Api] = []

    def make(
        config: dict[str, str] | None = None,
        files: MemoryFiles | None = None,
        brokers: int = 1,
        opening_executor: Executor | None = None,
        authorizer: Authorizer | None = None,
    ) -> Api:
        made.append(Api(config, files, brokers, opening_executor, authorizer))
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


@pytest.fixture
def one_api() -> Iterator[type[OneApi]]:
    """Makes an API with collaborators of one's own."""
    made: list[OneApi] = []

    def make(api: protocol_api.Api, **collaborators: object) -> OneApi:
        made.append(OneApi(api, **collaborators))
        return made[-1]

    yield make  # type: ignore[misc]
    for api in made:
        api.runner.close()


@pytest.fixture
def make_topic(api) -> Callable[..., Any]:
    """Creates a topic through CreateTopics and returns it from the cluster metadata."""

    def make(name: str = "t", partitions: int = 1, configs: dict[str, str] | None = None, of: Any = None) -> Any:
        broker = of or api
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        answer = broker.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000, validate_only=False)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        return broker.cluster.cluster_metadata.topics[name]

    return make


@pytest.fixture
def batch() -> Callable[..., bytes]:
    """A record batch of values, first timestamp 1000, one millisecond apart."""

    def make(*values: bytes, timestamp_ms: int = 1000, **options: Any) -> bytes:
        records = [Record(number, timestamp_ms + number, None, value) for number, value in enumerate(values)]
        return bytes(encode_batch(records, **options))

    return make
