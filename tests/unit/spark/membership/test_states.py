"""The fields of KIP-848 records against the tables of the offsets topic; rows are in tests/spark/test_members.py."""

from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES
from ottla.spark.membership import states


def test_the_fields_that_are_read_are_fields_of_the_records():
    metadata = OFFSETS_TOPIC_TYPES[states.MEMBER_METADATA_TYPE].value.names()
    assert {name.split(".")[0] for name in states._FIELDS} <= metadata
    current = OFFSETS_TOPIC_TYPES[states.CURRENT_ASSIGNMENT_TYPE].value.names()
    assert {"memberEpoch", "assignedPartitions", "partitionsPendingRevocation"} <= current
