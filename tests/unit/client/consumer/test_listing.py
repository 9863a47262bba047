"""What list_topics returns."""

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import DescribedCluster, DescribedPartition, Failure
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.listing import cluster_metadata
from ottla.core.errors import ErrorCode


def test_brokers_and_topics_with_their_partitions() -> None:
    partitions = {0: DescribedPartition(1, (1, 2), (1,)), 1: DescribedPartition(None, (2,), ())}
    found = cluster_metadata(DescribedCluster("id", 1, {1: BrokerEndpoint(1, "host", 9092)}, {"t": partitions}))
    assert (found.cluster_id, found.controller_id, str(found.brokers[1])) == ("id", 1, "host:9092/1")
    topic = found.topics["t"]
    assert (str(topic), topic.error) == ("t", None)
    assert [(each.id, each.leader, each.replicas, each.isrs, each.error) for each in topic.partitions.values()] == [
        (0, 1, [1, 2], [1], None),
        (1, -1, [2], [], None),
    ]


def test_a_topic_that_does_not_exist() -> None:
    found = cluster_metadata(DescribedCluster("", -1, {}, {"x": Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}))
    assert found.topics["x"].error == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert found.topics["x"].partitions == {}
