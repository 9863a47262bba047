"""Group metadata for a transactional producer: the bytes of librdkafka."""

import confluent_kafka
import pytest

from ottla.client.consumer.group_metadata import encode_group_metadata


@pytest.mark.conformance("ConsumerCoordinatorTest.testGetGroupMetadata")
def test_the_bytes_are_those_of_librdkafka() -> None:
    consumer = confluent_kafka.Consumer({"group.id": "x"})
    try:
        assert encode_group_metadata("x", -1, "", None) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


def test_a_static_member() -> None:
    assert encode_group_metadata("g", 3, "m", "i").endswith(b"g\0m\0\0i\0")
