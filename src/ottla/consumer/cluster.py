"""A cluster as a client sees it: which broker leads which partition, and one connection to each broker that is asked.

It finds leaders, asks for offsets, and forgets what turned out to be wrong; trying again is for whoever asks (see `patience`).
"""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from kio.schema.list_offsets.v6.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from ottla.consumer.addresses import Address, parse_addresses
from ottla.consumer.admin.values import EARLIEST, LATEST
from ottla.consumer.connection import Connection
from ottla.consumer.errors import BrokerUnavailableError, ClientError, RequestFailedError, UnknownTopicError, error_code
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Address", "Cluster", "list_offsets_request", "parse_addresses"]


class Cluster:
    """Brokers behind `bootstrap_servers` ("host:port,host:port"). Not for two threads at once."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "ottla",
        timeout_ms: int = 30_000,
        connect: Callable[..., Connection] = Connection,
    ) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._connect = connect
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[TopicPartition, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.forget()

    def forget(self) -> None:
        """Close the connections and look everything up again: something was not where it was thought to be."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._leaders.clear()

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partition numbers of each topic. Topics are never created by asking.

        Raises UnknownTopicError, BrokerUnavailableError, or RequestFailedError (retriable while a topic has no leader yet).
        """
        names = list(topics)
        wanted = tuple(MetadataRequestTopic(name=TopicName(name)) for name in names)
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = self._any_broker().ask(request, MetadataResponse)
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        found = {}
        for topic in answer.topics:
            self._raise_for(topic.error_code, f"topic {topic.name}")
            for partition in topic.partitions:
                self._raise_for(partition.error_code, f"partition {partition.partition_index} of topic {topic.name}")
                if partition.leader_id not in brokers:
                    self._raise_for(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition.partition_index} of topic {topic.name}")
                self._leaders[TopicPartition(topic.name, partition.partition_index)] = brokers[partition.leader_id]
            found[topic.name] = sorted(partition.partition_index for partition in topic.partitions)
        for name in names:
            if name not in found:
                raise UnknownTopicError(f"topic {name} does not exist")
        return found

    def leader(self, partition: TopicPartition) -> Connection:
        """The connection to the broker that leads `partition`. Raises as `partitions` does."""
        if partition not in self._leaders:
            self.partitions([partition.topic])
            if partition not in self._leaders:
                raise UnknownTopicError(f"topic {partition.topic} has no partition {partition.partition}")
        return self._connection(self._leaders[partition])

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The EARLIEST or LATEST offset of each partition (ListOffsets, one request a broker). Raises as `leader` does."""
        by_leader: dict[int, tuple[Connection, list[TopicPartition]]] = {}
        for partition in partitions:
            connection = self.leader(partition)
            by_leader.setdefault(id(connection), (connection, []))[1].append(partition)
        found: dict[TopicPartition, int] = {}
        for connection, asked in by_leader.values():
            answer = connection.ask(list_offsets_request(asked, timestamp), ListOffsetsResponse)
            for topic in answer.topics:
                for item in topic.partitions:
                    self._raise_for(item.error_code, f"partition {item.partition_index} of topic {topic.name}")
                    found[TopicPartition(topic.name, item.partition_index)] = item.offset
            missing = [partition for partition in asked if partition not in found]
            if missing:
                raise RequestFailedError(f"{connection.name} gave no offset for {missing[0]}", ErrorCode.UNKNOWN_SERVER_ERROR)
        return found

    def _raise_for(self, number: int, what: str) -> None:
        code = error_code(number)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"{what} does not exist")
        if code is not ErrorCode.NONE:
            raise RequestFailedError(f"{what}: {code.name}", code)

    def _any_broker(self) -> Connection:
        failures = []
        for address in [*self._connections, *self._bootstrap]:
            try:
                return self._connection(address)
            except ClientError as error:
                failures.append(str(error))
        raise BrokerUnavailableError("; ".join(failures))

    def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connect(*address, client_id=self._client_id, timeout_ms=self._timeout_ms)
            self._connections[address] = connection
        return connection


def list_offsets_request(partitions: Iterable[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    """ListOffsets 6 for partitions of one leader; `timestamp` is in ms since 1970, or EARLIEST or LATEST."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp)))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=tuple(ListOffsetsTopic(name=TopicName(name), partitions=tuple(items)) for name, items in topics.items()),
    )
