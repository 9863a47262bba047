"""Where a query has to come after a kill, by what the brokers acknowledged; tests/spark/test_kill.py kills a real one."""

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.world import TOPIC, Producer


def test_the_ends_are_behind_the_last_record_that_was_acknowledged():
    producer = Producer("127.0.0.1:1")
    assert producer.ends() == {}
    producer.acknowledged.update({(0, 4): "a", (0, 3): "b", (2, 0): "c"})
    assert producer.ends() == {TopicPartition(TOPIC, 0): 5, TopicPartition(TOPIC, 2): 1}
