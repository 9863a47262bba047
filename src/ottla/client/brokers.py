"""The brokers of a cluster: one connection to each, their endpoints and topics from Metadata, and calls with retries.

Metadata requests: version 12 where the broker supports it (topic ids, KIP-516), else 9. Admin requests and the fetch client are built on
it. It knows no group, no offset and no record.
"""

import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from secrets import SystemRandom
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.metadata.v9.request import MetadataRequest as Request9
from kio.schema.metadata.v9.request import MetadataRequestTopic as Topic9
from kio.schema.metadata.v9.response import MetadataResponse as Response9
from kio.schema.metadata.v12.request import MetadataRequest as Request12
from kio.schema.metadata.v12.request import MetadataRequestTopic as Topic12
from kio.schema.metadata.v12.response import MetadataResponse as Response12
from kio.schema.types import TopicName

from ottla.client.addresses import Address, BrokerEndpoint, parse_addresses
from ottla.client.deadlines import RETRIABLE, Deadline, DeadlineExceededError, NoBrokerReachedError
from ottla.client.errors import BrokerUnavailableError, NeverReachedError, RequestFailedError, error_code
from ottla.client.fetch.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.client.fetch.requests import topic_id_bytes
from ottla.client.network.connection import BrokerConnection
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

WITH_IDS: Final = 12


class BrokersAndTopics(NamedTuple):
    """The brokers of a cluster by their ids, and the requested topics; the controller's id is -1 where there is none."""

    endpoints: dict[int, BrokerEndpoint]
    topics: tuple[TopicMetadata, ...]
    cluster_id: str | None = None
    controller_id: int = -1


def request_metadata(connection: BrokerConnection, topics: Sequence[str] | None, *, creates: bool = False) -> BrokersAndTopics:
    """The cluster as one broker knows it, with `topics`; None: with all topics. `creates`: brokers may create topics."""
    request, response_class = metadata_request(topics, with_ids=connection.speaks(ApiKey.METADATA, WITH_IDS), creates=creates)
    return read_metadata(connection.call(request, response_class))


def metadata_request(
    topics: Sequence[str] | None, *, with_ids: bool, creates: bool = False, topic_ids: Sequence[str] = ()
) -> tuple[Any, Any]:
    """A request, and the class of its response; `with_ids`: of the version that has topic ids; `creates`: brokers may create topics.

    `topic_ids`: topics by their ids, which that version alone can name.
    """
    if with_ids:
        by_id = tuple(Topic12(topic_id=uuid.UUID(bytes=topic_id_bytes(each)), name=None) for each in topic_ids)
        names12 = None if topics is None else (*by_id, *(Topic12(topic_id=None, name=TopicName(name)) for name in topics))
        return Request12(topics=names12, allow_auto_topic_creation=creates, include_topic_authorized_operations=False), Response12
    names9 = None if topics is None else tuple(Topic9(name=TopicName(name)) for name in topics)
    request9 = Request9(
        topics=names9,
        allow_auto_topic_creation=creates,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return request9, Response9


def topic_id_text(topic_id: uuid.UUID | None) -> str:
    """A topic id as Kafka prints it: 22 letters of base64; "" for none."""
    return "" if topic_id is None or topic_id.int == 0 else urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def read_metadata(answer: Any) -> BrokersAndTopics:
    """A response of either version."""
    racks = {broker.node_id: broker.rack for broker in answer.brokers if broker.rack}
    return BrokersAndTopics(
        {int(broker.node_id): BrokerEndpoint(int(broker.node_id), broker.host, int(broker.port)) for broker in answer.brokers},
        tuple(
            TopicMetadata(
                topic.name,
                error_code(topic.error_code),
                topic_id_text(getattr(topic, "topic_id", None)),
                topic.is_internal,
                {
                    int(item.partition_index): PartitionMetadata(
                        error_code(item.error_code),
                        LeaderAndEpoch(int(item.leader_id), int(item.leader_epoch)),
                        frozenset(racks[replica] for replica in item.replica_nodes if replica in racks),
                        item.replica_nodes,
                        item.isr_nodes,
                    )
                    for item in topic.partitions
                },
            )
            for topic in answer.topics
            if topic.name is not None
        ),
        answer.cluster_id,
        int(answer.controller_id),
    )


Connect = Callable[[Address, ClientSettings, int], BrokerConnection]
"""Opens a connection within so many milliseconds."""

T = TypeVar("T")
_RANDOM = SystemRandom()


class Brokers:
    """The brokers behind `settings.bootstrap_servers`. Not for two threads at once.

    `timeout_ms` is the time of each call; `bootstrap_timeout_ms` how long a call retries an address that was never reached, until the first
    call that needs an advertised address has succeeded (None: as long): a wrong address is soon known, and brokers may restart later.
    `clock` and `pause` are in seconds. Raises ValueError for malformed addresses.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_ms: int | None = None,
        bootstrap_timeout_ms: int | None = None,
        connect: Connect = connect,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
        rng: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self.settings = settings
        self._bootstrap = parse_addresses(settings.bootstrap_servers)
        self._timeout_ms = settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._contact_ms = self._timeout_ms if bootstrap_timeout_ms is None else min(bootstrap_timeout_ms, self._timeout_ms)
        self._reached: set[Address] = set()
        self._has_reached_advertised = False
        self._is_first_contact = bootstrap_timeout_ms is not None
        self._connect = connect
        self._clock = clock
        self._pause = pause
        self._rng = rng
        self._connections: dict[Address, BrokerConnection] = {}
        self._endpoints: dict[int, BrokerEndpoint] = {}

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, call: str) -> Deadline:
        """A new deadline for one call."""
        return self._deadline(call, self._timeout_ms)

    def retry(self, call: str, attempt: Callable[[Deadline], T]) -> T:
        """The result of `attempt`, retried after retriable errors until the deadline."""
        deadline, contact = self.deadline(call), self.contact_deadline(call)
        while True:
            try:
                result = attempt(deadline)
            except BrokerUnavailableError as error:
                self.wait(error, deadline, contact)
            except RequestFailedError as error:
                if error.code not in RETRIABLE:
                    raise
                deadline.wait(str(error))
            else:
                self._is_first_contact = self._is_first_contact and not self._has_reached_advertised
                return result

    def contact_deadline(self, call: str) -> Deadline:
        """A new deadline for the first contact with a broker, for `wait`."""
        return self._deadline(call, self._contact_ms)

    def wait(self, error: BrokerUnavailableError, deadline: Deadline, contact: Deadline, last: str | None = None) -> None:
        """Back off after a broker was not reached. Raises DeadlineExceededError with `last`; NoBrokerReachedError past `contact`."""
        if not (self._is_first_contact and isinstance(error, NeverReachedError)):
            deadline.wait(last, error)
            return
        try:
            contact.wait(last, error)
        except DeadlineExceededError as late:
            raise NoBrokerReachedError(self._contact_ms, str(error), error.broker_id) from late

    def connection(self, endpoint: BrokerEndpoint, deadline: Deadline) -> BrokerConnection:
        """The connection to a broker, with the time that is left. Raises BrokerUnavailableError."""
        address = Address(endpoint.host, endpoint.port)
        try:
            connection = self._connection(address, deadline)
        except BrokerUnavailableError as error:
            if address in self._reached:
                raise
            raise NeverReachedError(str(error), endpoint.broker_id) from error
        self._has_reached_advertised = True
        return connection

    def call_any(self, request: Any, response_class: type[Any], deadline: Deadline) -> Any:
        """Call one broker after another until one answers; brokers with a connection come first. Raises BrokerUnavailableError."""
        return self._call_any(lambda connection: connection.call(request, response_class), deadline)

    def call(self, connection: BrokerConnection, request: Any, response_class: type[Any]) -> Any:
        """Call one broker; drop its connection after a failure."""
        return self._use(connection, lambda used: used.call(request, response_class))

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline, *, creates: bool = False) -> tuple[TopicMetadata, ...]:
        """The metadata of `topics` (None: all); the endpoints in the response are kept. `creates`: brokers may create topics."""
        return self.cluster(topics, deadline, creates=creates).topics

    def cluster(self, topics: Sequence[str] | None, deadline: Deadline, *, creates: bool = False) -> BrokersAndTopics:
        """The brokers, the controller and `topics`, as `metadata` requests them."""
        found = self._call_any(lambda connection: request_metadata(connection, topics, creates=creates), deadline)
        self._endpoints = found.endpoints
        return found

    def endpoints(self, deadline: Deadline) -> dict[int, BrokerEndpoint]:
        """Every broker of the cluster by its id, from a new Metadata request."""
        self.metadata([], deadline)
        return dict(self._endpoints)

    def endpoint(self, broker_id: int) -> BrokerEndpoint:
        """A broker in the last Metadata response. Raises a retriable RequestFailedError when it has none of this id."""
        if broker_id not in self._endpoints:
            raise RequestFailedError(f"broker {broker_id} is not there", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._endpoints[broker_id]

    def add_endpoint(self, endpoint: BrokerEndpoint) -> None:
        """Keep an endpoint that another response named (KIP-951)."""
        self._endpoints[endpoint.broker_id] = endpoint

    def _deadline(self, call: str, timeout_ms: int) -> Deadline:
        return Deadline(call, timeout_ms, self.settings, clock=self._clock, pause=self._pause, rng=self._rng)

    def _call_any(self, call: Callable[[BrokerConnection], T], deadline: Deadline) -> T:
        failures = []
        known = [Address(endpoint.host, endpoint.port) for endpoint in self._endpoints.values()]
        for address in dict.fromkeys([*self._connections, *self._bootstrap, *known]):
            try:
                return self._use(self._connection(address, deadline), call)
            except BrokerUnavailableError as error:
                failures.append(str(error))
        raise (BrokerUnavailableError if self._reached else NeverReachedError)("; ".join(failures))

    def _use(self, connection: BrokerConnection, call: Callable[[BrokerConnection], T]) -> T:
        try:
            return call(connection)
        except BaseException:  # an interrupted call, too: its response must not be taken for the next one's
            self._connections = {address: other for address, other in self._connections.items() if other is not connection}
            connection.close()
            raise

    def _connection(self, address: Address, deadline: Deadline) -> BrokerConnection:
        left_ms = min(deadline.left_ms(), self.settings.request_timeout_ms)
        if left_ms == 0:
            raise deadline.exceeded(None)
        connection = self._connections.get(address)
        if connection is not None and connection.is_stale(self.settings.connections_max_idle_ms):
            connection.close()
            connection = None
        if connection is None:
            connection = self._connections[address] = self._connect(address, self.settings, left_ms)
            self._reached.add(address)
        connection.timeout_ms = left_ms
        return connection
