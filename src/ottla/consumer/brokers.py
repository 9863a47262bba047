"""The brokers of a cluster: one connection to each, who there is, and questions that are asked again until their time is over.

It is the one wire client below administration and fetching. It knows no group, no offset and no record.
"""

import time
from collections.abc import Callable, Sequence
from secrets import SystemRandom
from typing import Any, TypeVar

from ottla.consumer.addresses import Address, parse_addresses
from ottla.consumer.admin.values import Node
from ottla.consumer.connecting import connect
from ottla.consumer.connection import Connection
from ottla.consumer.errors import BrokerUnavailableError, RequestFailedError
from ottla.consumer.metadata import ClusterView, ask_metadata
from ottla.consumer.retrying import MAY_PASS, Deadline
from ottla.consumer.settings import ClientSettings
from ottla.core.consuming.cluster_view import TopicView
from ottla.core.errors import ErrorCode

Connect = Callable[[Address, ClientSettings, int], Connection]
"""Makes a connection within so many milliseconds."""

T = TypeVar("T")
_DICE = SystemRandom()


class Brokers:
    """The brokers behind `settings.bootstrap_servers`. Not for two threads at once.

    `timeout_ms` is what each question has; `clock` and `pause` are in seconds. Raises ValueError for addresses that are none.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_ms: int | None = None,
        connect: Connect = connect,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        dice: Callable[[], float] = _DICE.random,
    ) -> None:
        self.settings = settings
        self._bootstrap = parse_addresses(settings.bootstrap_servers)
        self._timeout_ms = settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._connect = connect
        self._clock = clock
        self._pause = pause
        self._dice = dice
        self._connections: dict[Address, Connection] = {}
        self._nodes: dict[int, Node] = {}

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, call: str) -> Deadline:
        """The time for one question."""
        return Deadline(call, self._timeout_ms, self.settings, clock=self._clock, pause=self._pause, dice=self._dice)

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
        return self._any(lambda connection: connection.ask(request, response_class), deadline)

    def ask(self, connection: Connection, request: Any, response_class: type[Any]) -> Any:
        """Asks one broker; a connection that fails is forgotten."""
        return self._ask(connection, lambda asked: asked.ask(request, response_class))

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline) -> tuple[TopicView, ...]:
        """What Metadata says of `topics` (None: of all), which are not created by asking; the brokers in it are remembered."""
        view: ClusterView = self._any(lambda connection: ask_metadata(connection, topics), deadline)
        self._nodes = view.nodes
        return view.topics

    def nodes(self, deadline: Deadline) -> dict[int, Node]:
        """Every broker of the cluster, by its id, as Metadata names them now."""
        self.metadata([], deadline)
        return dict(self._nodes)

    def known(self, broker_id: int) -> Node:
        """A broker that the last Metadata named. Raises RequestFailedError that may pass when it named none of this id."""
        if broker_id not in self._nodes:
            raise RequestFailedError(f"broker {broker_id} is not there", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._nodes[broker_id]

    def learn(self, node: Node) -> None:
        """A broker that an answer named beside Metadata (KIP-951)."""
        self._nodes[node.broker_id] = node

    def _any(self, ask: Callable[[Connection], T], deadline: Deadline) -> T:
        failures = []
        known = [Address(node.host, node.port) for node in self._nodes.values()]
        for address in dict.fromkeys([*self._connections, *self._bootstrap, *known]):
            try:
                return self._ask(self._connection(address, deadline), ask)
            except BrokerUnavailableError as error:
                failures.append(str(error))
        raise BrokerUnavailableError("; ".join(failures))

    def _ask(self, connection: Connection, ask: Callable[[Connection], T]) -> T:
        try:
            return ask(connection)
        except BaseException:  # an interrupted question, too: its answer must not be taken for the next one's
            self._connections = {address: kept for address, kept in self._connections.items() if kept is not connection}
            connection.close()
            raise

    def _connection(self, address: Address, deadline: Deadline) -> Connection:
        left_ms = min(deadline.left_ms(), self.settings.request_timeout_ms)
        if left_ms == 0:
            raise deadline.over(None)
        connection = self._connections.get(address)
        if connection is not None and connection.is_stale(self.settings.connections_max_idle_ms):
            connection.close()
            connection = None
        if connection is None:
            connection = self._connections[address] = self._connect(address, self.settings, left_ms)
        connection.timeout_ms = left_ms
        return connection
