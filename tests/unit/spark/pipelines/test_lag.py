"""The columns that `lag` reads of a topic's records: no values, and no keys."""

from ottla.spark.pipelines.lag import LAST, NEXT, PIPELINE, READ, TOPIC_RECORDS
from ottla.spark.schemas import LAG, LAG_HISTORY


def test_only_offsets_and_times_of_a_topic_are_read():
    assert TOPIC_RECORDS.fieldNames() == ["topic", "partition", "offset", "timestamp"]
    assert {"group", "topic", "partition", "lag"} <= set(LAG.fieldNames()) & set(LAG_HISTORY.fieldNames())
    assert "members" not in PIPELINE.inputs["committed_group_records"].fieldNames()


def test_three_records_decide_all_times():
    assert len({NEXT, READ, LAST}) == 3
    assert [name for name in LAG.fieldNames() if name.endswith("_quality")] == [
        "next_record_age_quality",
        "freshness_quality",
        "drain_quality",
    ]
