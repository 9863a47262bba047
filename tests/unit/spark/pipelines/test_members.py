"""The pipeline's tables; their rows are compared with a walk over the records in tests/spark/test_members.py."""

from ottla.spark.pipelines.members import MEMBER_RECORDS, PIPELINE


def test_a_stream_keeps_no_columns_of_commits_beside_the_members():
    assert {"committed_offset", "metadata"}.isdisjoint(MEMBER_RECORDS.fieldNames())
    assert list(PIPELINE.outputs) == ["members", "ownership", "member_churn"]
