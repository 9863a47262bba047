"""What list_topics returns."""

from ottla.client.admin.values import DescribedTopic
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.listing import cluster_metadata, unknown_topic


def test_topics_with_their_partitions_and_leaders() -> None:
    found = cluster_metadata([DescribedTopic("t", {0: 1, 1: None}, "", False)])
    topic = found.topics["t"]
    assert str(topic) == "t"
    assert {number: each.leader for number, each in topic.partitions.items()} == {0: 1, 1: -1}
    assert topic.error is None


def test_a_topic_that_does_not_exist() -> None:
    assert unknown_topic("x").topics["x"].error == KafkaError.UNKNOWN_TOPIC_OR_PART
