"""The records whose times are looked up; all rows are compared with the plain rules in tests/spark/test_lag.py."""

from ottla.spark.schemas import LAG
from ottla.spark.time_lags import LAST, NEXT, READ


def test_three_records_decide_all_times():
    assert len({NEXT, READ, LAST}) == 3
    assert [name for name in LAG.fieldNames() if name.endswith("_quality")] == [
        "next_record_age_quality",
        "freshness_quality",
        "drain_quality",
    ]
