"""The hash of a group's topics, and the bytes of its records: those of Apache Kafka's own classes."""

import pytest

from ottla.groups.log.records import ConsumerGroupRecord, decode, encode_key, encode_value
from ottla.groups.topics import group_hash, topic_hash
from ottla.protocol.coordinator_records import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
)

FOO = bytes.fromhex("112233445566778899aabbccddeeff00")
ID = (1).to_bytes(8) + (2).to_bytes(8)


def test_hashes_are_kafkas() -> None:
    foo = topic_hash(FOO, "foo", ((),) * 3)
    assert foo == 1958813980667939879
    assert group_hash({"foo": foo}) == 8043129164744331421
    other = topic_hash(ID, "bär", (("rack-b", "rack-a"), ("rack-a",)))
    assert other - 2**64 == -6529991211063755011
    assert group_hash({"foo": foo, "bär": other}) == -2333673773004820389
    assert group_hash({}) == 0


@pytest.mark.parametrize(
    ("record_type", "name", "value", "data"),
    [
        (3, "", ConsumerGroupMetadataValue(epoch=2, metadata_hash=8043129164744331421), "0000000000020100086f9eef5c6b2b909d"),
        (
            6,
            "",
            TargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp_ms=1700000000000),
            "0000000000020100080000018bcfe56800",
        ),
        (
            7,
            "m",
            TargetAssignmentMemberValue(topic_partitions=(TopicPartitions(topic_id=ID, partitions=(0, 1)),)),
            "000002000000000000000100000000000000020300000000000000010000",
        ),
        (
            8,
            "m",
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=2,
                previous_member_epoch=0,
                state=0,
                assigned_partitions=(AssignedTopicPartitions(topic_id=ID, partitions=(0, 1), assignment_epochs=(2, 2)),),
                partitions_pending_revocation=(),
            ),
            "000000000002000000000002000000000000000100000000000000020300000000000000010100090300000002000000020100",
        ),
        (
            16,
            "f.*",
            ConsumerGroupRegularExpressionValue(topics=("foo",), version=7, timestamp_ms=1700000000000),
            "00000204666f6f00000000000000070000018bcfe5680000",
        ),
    ],
)
def test_values_are_kafkas(record_type: int, name: str, value: object, data: str) -> None:
    record = ConsumerGroupRecord(record_type=record_type, group_id="g", name=name, value=value)
    assert encode_value(record) == bytes.fromhex(data)
    assert decode(encode_key(record), encode_value(record)) == record
    tombstone = ConsumerGroupRecord(record_type=record_type, group_id="g", name=name, value=None)
    assert decode(encode_key(tombstone), encode_value(tombstone)) == tombstone
