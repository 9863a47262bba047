"""Values that aiokafka's users take apart, and compare with aiokafka's own."""

import aiokafka.structs

from ottla.client.async_consumer.structs import OffsetAndMetadata, OffsetAndTimestamp
from ottla.core.model import TopicPartition


def test_they_equal_aiokafkas() -> None:
    assert OffsetAndMetadata(3) == aiokafka.structs.OffsetAndMetadata(3, "")
    assert OffsetAndTimestamp(3, 7) == aiokafka.structs.OffsetAndTimestamp(3, 7)
    theirs = aiokafka.structs.TopicPartition("t", 1)
    assert {TopicPartition("t", 1): 5}[theirs] == 5
    assert repr(TopicPartition("t", 1)) == repr(theirs)
