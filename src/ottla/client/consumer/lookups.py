"""Calls that ask brokers something while the application waits: offsets, watermarks, topics.

What `Consumer.list_topics` returns: brokers and topics, with the attributes that confluent-kafka's classes have.

What a consumer looks up with requests of their own, on connections of their own: offsets, topics and the cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, CommittedOffset, DescribedCluster, DescribedPartition, Failure
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, exception
from ottla.client.consumer.message import TopicPartition, key, keys
from ottla.client.consumer.properties import ConsumerProperties
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A broker and its address."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition; `leader` is a broker's id, -1 without one; `replicas` and `isrs` (those in sync) are brokers' ids."""

    id: int
    leader: int
    replicas: list[int] = field(default_factory=list)
    isrs: list[int] = field(default_factory=list)
    error: KafkaError | None = None

    def __str__(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic and its partitions by number."""

    topic: str
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: KafkaError | None = None

    def __str__(self) -> str:
        return self.topic


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers by id and topics by name; `controller_id` is -1 where there is none."""

    cluster_id: str
    controller_id: int
    brokers: dict[int, BrokerMetadata]
    topics: dict[str, TopicMetadata]

    def __str__(self) -> str:
        return self.cluster_id


def cluster_metadata(cluster: DescribedCluster) -> ClusterMetadata:
    """The listing of a described cluster."""
    brokers = {each.broker_id: BrokerMetadata(each.broker_id, each.host, each.port) for each in cluster.brokers.values()}
    topics = {}
    for name, partitions in cluster.topics.items():
        if isinstance(partitions, Failure):
            topics[name] = TopicMetadata(name, error=KafkaError(partitions.code))
        else:
            topics[name] = TopicMetadata(name, {number: _partition(number, each) for number, each in partitions.items()})
    return ClusterMetadata(cluster.cluster_id, cluster.controller_id, brokers, topics)


def _partition(number: int, described: DescribedPartition) -> PartitionMetadata:
    leader = -1 if described.leader is None else described.leader
    return PartitionMetadata(number, leader, list(described.replicas), list(described.in_sync))


T = TypeVar("T")


class Lookups:
    """Calls of one consumer. A `timeout` of None or below 0 is default.api.timeout.ms. All raise KafkaException.

    `connect` is for tests.
    """

    def __init__(self, properties: ConsumerProperties, *, connect: Callable[..., AdminClient] = AdminClient) -> None:
        self._properties = properties
        self._connect = connect

    def set_credentials(self, username: str, password: str) -> None:
        """Authenticate with these from now on."""
        self._properties = replace(self._properties, client=self._properties.client.with_credentials(username, password))

    def committed(self, partitions: Sequence[Any], timeout: float | None) -> list[TopicPartition]:
        """The committed offset of each partition, OFFSET_INVALID where there is none."""
        group = self._properties.consumer.group.group_id
        found = self._call("get committed offsets", timeout, lambda admin: admin.committed([group])[group])
        if isinstance(found, Failure):
            code = KafkaError._TIMED_OUT if found.code is ErrorCode.REQUEST_TIMED_OUT else found.code
            raise exception(code, "Failed to get committed offsets")
        return [_committed(each, found.get(each)) for each in keys(partitions)]

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float | None) -> list[TopicPartition]:
        """The first offset at or after the time (milliseconds since 1970) in each partition's `offset`; OFFSET_END where there is none."""
        times = {key(each): int(each.offset) for each in partitions}

        def look_up(admin: AdminClient) -> list[TopicPartition]:
            _check_partitions(admin, times)
            found = admin.offsets_for_times(times)
            return [TopicPartition(*each, found[each].offset, None, _epoch(found[each].leader_epoch)) for each in times]

        return self._call("get offsets", timeout, look_up)

    def watermarks(self, partition: Any, timeout: float | None) -> tuple[int, int]:
        """The first offset of a partition, and the one behind its end."""
        each = key(partition)

        def look_up(admin: AdminClient) -> tuple[int, int]:
            _check_partitions(admin, [each])
            return admin.list_offsets([each], EARLIEST)[each], admin.list_offsets([each], LATEST)[each]

        return self._call("get watermark offsets", timeout, look_up)

    def cluster(self, topics: Sequence[str] | None, timeout: float | None) -> ClusterMetadata:
        """The cluster with these topics; None: with all."""
        return cluster_metadata(self._call("get metadata", timeout, lambda admin: admin.describe_cluster(topics)))

    def _call(self, what: str, timeout: float | None, call: Callable[[AdminClient], T]) -> T:
        timeout_ms = self._properties.consumer.api_timeout_ms if timeout is None or timeout < 0 else max(int(timeout * 1000), 1)
        try:
            with self._connect(self._properties.client, timeout_ms=timeout_ms) as admin:
                return call(admin)
        except RequestFailedError as error:
            raise exception(error.code, f"Failed to {what}") from error
        except UnknownTopicError as error:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, f"Failed to {what}: {error}")) from error
        except ClientError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"Failed to {what}: {error}")) from error


def _check_partitions(admin: AdminClient, partitions: Iterable[model.TopicPartition]) -> None:
    """Raises UnknownTopicError. A request for offsets would look for a missing partition until its timeout."""
    described = admin.describe_topics(each.topic for each in partitions)
    for each in partitions:
        topic = described[each.topic]
        if isinstance(topic, Failure):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicError(f"topic {each.topic} does not exist")
            raise RequestFailedError(f"topic {each.topic}", topic.code)
        if each.partition not in topic.leaders:
            raise UnknownTopicError(f"topic {each.topic} has no partition {each.partition}")


def _committed(partition: model.TopicPartition, found: CommittedOffset | None) -> TopicPartition:
    if found is None or found.offset < 0:
        return TopicPartition(*partition)
    return TopicPartition(*partition, found.offset, found.metadata or None, _epoch(found.leader_epoch))


def _epoch(leader_epoch: int) -> int | None:
    return None if leader_epoch < 0 else leader_epoch
