"""TopicPartition, held to confluent-kafka's."""

import confluent_kafka
import pytest

from ottla.client.consumer.topic_partition import OFFSET_INVALID, TopicPartition, key, keys
from ottla.core import model


@pytest.mark.parametrize("arguments", [("t",), ("t", 1), ("t", 1, 5), ("t", 1, 5, "m", 3)])
def test_attributes_are_those_of_confluent_kafka(arguments: tuple[object, ...]) -> None:
    ours, theirs = TopicPartition(*arguments), confluent_kafka.TopicPartition(*arguments)  # type: ignore[arg-type]
    for name in ("topic", "partition", "offset", "metadata", "leader_epoch", "error"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert repr(ours) == repr(theirs)


def test_partitions_are_equal_by_topic_and_number() -> None:
    assert TopicPartition("t", 1, 5) == TopicPartition("t", 1, 7) == confluent_kafka.TopicPartition("t", 1)
    assert TopicPartition("t", 1) != TopicPartition("t", 2)
    assert sorted([TopicPartition("t", 2), TopicPartition("t", 1)])[0].partition == 1
    assert len({TopicPartition("t", 1, 5), TopicPartition("t", 1)}) == 1


def test_keys() -> None:
    assert keys([TopicPartition("t", 1, 5), confluent_kafka.TopicPartition("u", 0)]) == [
        model.TopicPartition("t", 1),
        model.TopicPartition("u", 0),
    ]
    with pytest.raises(TypeError, match="expected a TopicPartition, not 't'"):
        key("t")
    assert TopicPartition("t").offset == OFFSET_INVALID
