"""The brokers of a cluster as an administrator meets them: one connection to each, who there is, and how long a question may take.

A question is asked again, with a pause in between, until its time is over: coordinators move and load, leaders change, brokers restart.
What will not pass (a refusal) is never asked twice.
"""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import TopicName

from ottla.consumer.admin.values import Node
from ottla.consumer.cluster import Address, parse_addresses
from ottla.consumer.connection import Connection
from ottla.consumer.errors import BrokerUnavailableError, ClientError, RequestFailedError, error_code
from ottla.core.errors import ErrorCode

PAUSE_MS: Final = 100
"""Kafka's retry.backoff.ms."""
REQUEST_TIMEOUT_MS_MAX: Final = 30_000

MAY_PASS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Answers that another broker, or the same one a little later, may not give."""

T = TypeVar("T")


class OutOfTimeError(ClientError):
    """A question was not answered in its time.

    `last` is the answer that came last instead, None when no broker gave one; `unreachable` says why the last one could not be asked.
    """

    def __init__(self, call: str, attempts: int, last: str | None, unreachable: str | None = None) -> None:
        what = "Timed out waiting for a node assignment." if last is None else f"Timed out after {attempts} attempt(s), the last: {last}."
        super().__init__(f"{what} Call: {call}" + (f" ({unreachable})" if unreachable else ""))


class Deadline:
    """The time one question has, over all its attempts. `call` names it in errors."""

    def __init__(self, call: str, timeout_ms: int, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
        self.call = call
        self._clock = clock
        self._pause = pause
        self._ends = clock() + timeout_ms / 1000
        self._attempts = 0
        self._unreachable: str | None = None

    def left_ms(self) -> int:
        """What is left; 0 when it is over."""
        return max(0, int((self._ends - self._clock()) * 1000))

    def wait(self, last: str | None, error: BrokerUnavailableError | None = None) -> None:
        """Pause before another attempt. Raises OutOfTimeError with `last`, what the attempt got, when there is no time for one."""
        self._attempts += 1
        self._unreachable = str(error) if error else None
        if self.left_ms() <= PAUSE_MS:
            raise self.over(last)
        self._pause(PAUSE_MS / 1000)

    def over(self, last: str | None) -> OutOfTimeError:
        """The error of a question whose time is over."""
        return OutOfTimeError(self.call, self._attempts, last, self._unreachable)


class Brokers:
    """The brokers behind `bootstrap_servers` ("host:port,..."). Not for two threads at once.

    `timeout_ms` is what each question has; `clock` and `pause` are in seconds. Raises ValueError for addresses that are none.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str,
        timeout_ms: int,
        connect: Callable[..., Connection] = Connection,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._connect = connect
        self._clock = clock
        self._pause = pause
        self._connections: dict[Address, Connection] = {}
        self._nodes: dict[int, Node] = {}

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, call: str) -> Deadline:
        """The time for one question."""
        return Deadline(call, self._timeout_ms, self._clock, self._pause)

    def persist(self, call: str, attempt: Callable[[Deadline], T]) -> T:
        """The result of `attempt`, which is made again while its errors may pass and its time is not over."""
        deadline = self.deadline(call)
        while True:
            try:
                return attempt(deadline)
            except BrokerUnavailableError as error:
                deadline.wait(None, error)
            except RequestFailedError as error:
                if error.code not in MAY_PASS:
                    raise
                deadline.wait(str(error))

    def node(self, node: Node, deadline: Deadline) -> Connection:
        """The connection to a broker, with the time that is left. Raises BrokerUnavailableError."""
        return self._connection(Address(node.host, node.port), deadline)

    def ask_any(self, request: Any, response_class: type[Any], deadline: Deadline) -> Any:
        """Asks one broker after another until one answers: those that have answered before come first. Raises BrokerUnavailableError."""
        failures = []
        known = [Address(node.host, node.port) for node in self._nodes.values()]
        for address in dict.fromkeys([*self._connections, *self._bootstrap, *known]):
            try:
                return self.ask(self._connection(address, deadline), request, response_class)
            except BrokerUnavailableError as error:
                failures.append(str(error))
        raise BrokerUnavailableError("; ".join(failures))

    def ask(self, connection: Connection, request: Any, response_class: type[Any]) -> Any:
        """Asks one broker; a connection that fails is forgotten."""
        try:
            return connection.ask(request, response_class)
        except Exception:
            self._connections = {address: kept for address, kept in self._connections.items() if kept is not connection}
            connection.close()
            raise

    def metadata(self, topics: list[str], deadline: Deadline) -> Any:
        """The answer to Metadata about `topics` (none of them is created by asking); the brokers in it are remembered."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=TopicName(name)) for name in topics),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = self.ask_any(request, MetadataResponse, deadline)
        self._nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port) for broker in answer.brokers}
        return answer

    def nodes(self, deadline: Deadline) -> dict[int, Node]:
        """Every broker of the cluster, by its id, as Metadata names them now."""
        self.metadata([], deadline)
        return dict(self._nodes)

    def known(self, broker_id: int) -> Node:
        """A broker that the last Metadata named. Raises RequestFailedError that may pass when it named none of this id."""
        if broker_id not in self._nodes:
            raise RequestFailedError(f"broker {broker_id} is not there", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._nodes[broker_id]

    def _connection(self, address: Address, deadline: Deadline) -> Connection:
        left_ms = min(deadline.left_ms(), REQUEST_TIMEOUT_MS_MAX)
        if left_ms == 0:
            raise deadline.over(None)
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connect(*address, client_id=self._client_id, timeout_ms=left_ms)
            self._connections[address] = connection
        connection.timeout_ms = left_ms
        return connection


def raise_for(number: int, what: str) -> None:
    """Raises RequestFailedError when an answer's error code is one."""
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise RequestFailedError(f"{what}: {code.name}", code)
