"""The pipeline `members`."""

from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES
from ottla.spark.pipelines import members
from ottla.spark.pipelines.members import _ATTRIBUTES, MEMBER_RECORDS, PIPELINE, RETURNS_MAX
from ottla.spark.schemas import MEMBERS


def test_a_return_every_ten_minutes_is_the_whole_score():
    assert 60 // RETURNS_MAX == 10


def test_every_attribute_is_a_column_of_the_members():
    assert set(_ATTRIBUTES) <= set(MEMBERS.fieldNames())


def test_the_fields_that_are_read_are_fields_of_the_records():
    metadata = OFFSETS_TOPIC_TYPES[members.MEMBER_METADATA_TYPE].value.names()
    assert {name.split(".")[0] for name in members._FIELDS} <= metadata
    current = OFFSETS_TOPIC_TYPES[members.CURRENT_ASSIGNMENT_TYPE].value.names()
    assert {"memberEpoch", "assignedPartitions", "partitionsPendingRevocation"} <= current


def test_a_stream_keeps_no_columns_of_commits_beside_the_members():
    assert {"committed_offset", "metadata"}.isdisjoint(MEMBER_RECORDS.fieldNames())
    assert list(PIPELINE.outputs) == ["members", "ownership", "member_churn"]
