"""What `Consumer.list_topics` returns: brokers and topics, with the attributes that confluent-kafka's classes have."""

from dataclasses import dataclass, field

from ottla.client.admin.values import DescribedCluster, DescribedPartition, Failure
from ottla.client.consumer.kafka_errors import KafkaError


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
