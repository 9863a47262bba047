"""The fields of KIP-848 records against the tables of the offsets topic; rows are in tests/spark/test_members.py."""

from ottla.core.groups.log.record_schemas import RECORD_TYPES
from ottla.spark.membership import states


def test_the_fields_that_are_read_are_fields_of_the_records():
    metadata = {field.name for field in RECORD_TYPES[states.MEMBER_METADATA_TYPE].value.fields}
    assert {name.split(".")[0] for name in states._FIELDS} <= metadata
    current = {field.name for field in RECORD_TYPES[states.CURRENT_ASSIGNMENT_TYPE].value.fields}
    assert {"memberEpoch", "assignedPartitions", "partitionsPendingRevocation"} <= current
