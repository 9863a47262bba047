"""What `Consumer.list_topics` returns: the cluster's topics, with the attributes that confluent-kafka's classes have."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.admin.values import DescribedTopic
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.core.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition; `leader` is a broker's id, -1 without one."""

    id: int
    leader: int
    error: KafkaError | None = None


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
    """Topics by name."""

    topics: dict[str, TopicMetadata]


def cluster_metadata(topics: Iterable[DescribedTopic]) -> ClusterMetadata:
    """The listing of described topics."""
    return ClusterMetadata({topic.name: _topic(topic) for topic in topics})


def unknown_topic(name: str) -> ClusterMetadata:
    """The listing for one topic that does not exist."""
    return ClusterMetadata({name: TopicMetadata(name, {}, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))})


def _topic(topic: DescribedTopic) -> TopicMetadata:
    partitions = {number: PartitionMetadata(number, -1 if leader is None else leader) for number, leader in topic.leaders.items()}
    return TopicMetadata(topic.name, partitions)
