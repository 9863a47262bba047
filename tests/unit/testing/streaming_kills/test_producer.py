"""How far the records go that the brokers acknowledged; test_plain_member.py has it write."""

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.producer import Producer


def test_the_ends_are_behind_the_last_record_that_was_acknowledged():
    producer = Producer("127.0.0.1:1", "t", 3)
    assert producer.ends() == {}
    producer.acknowledged.update({(0, 4): "a", (0, 3): "b", (2, 0): "c"})
    assert producer.ends() == {TopicPartition("t", 0): 5, TopicPartition("t", 2): 1}
