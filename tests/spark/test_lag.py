"""The pipeline `lag` on commits and ends that are written out here, with every case that a picture of lag must not get wrong."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.spark.pipelines.lag import PIPELINE, TOPIC_RECORDS
from ottla.spark.runner import run
from ottla.spark.schemas import END_OFFSETS, LAG, LAG_HISTORY, OFFSET_COMMITS

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def plain(ms: int) -> datetime:
    """As PySpark hands it out: without a zone."""
    return at(ms).replace(tzinfo=None)


def commit(offset: int, partition: int, committed: int | None, ms: int, *, topic: str = "t", group: str = "g") -> tuple[Any, ...]:
    gone = committed is None
    value = (None,) * 6 if gone else (committed, -1, "", at(ms), None, None)
    return (3, offset, at(ms), group, topic, partition, gone, *value, 1, None if gone else 4)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark hands out times without a zone, in the zone of the process."""
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.usefixtures("in_utc")
def test_lag_now_and_over_time(spark: Any) -> None:
    commits = [
        commit(0, 0, 10, 100),
        commit(1, 0, 40, 2_000),
        commit(2, 1, 7, 300),
        commit(3, 1, None, 1_500),  # deleted
        commit(4, 2, 9, 1_000),  # beyond the end, before the start of nothing
        commit(5, 3, 1, 1_000),  # what is at 1 is gone already
        commit(6, 0, 3, 1_000, topic="gone"),
        commit(7, 2, 5, 2_500, group="h"),
    ]
    ends = [("t", 0, 0, 50, at(3_000)), ("t", 1, 0, 9, at(3_000)), ("t", 2, 0, 8, at(3_000)), ("t", 3, 4, 6, at(3_000))]
    # The record at offset 29 says that it is older than the one at 19, before it: it moves no end back in time.
    records = [("t", 0, 11, at(50)), ("t", 0, 29, at(1_000)), ("t", 0, 19, at(1_220)), ("t", 0, 34, at(1_990)), ("t", 0, 44, at(2_000))]
    frames = run(
        PIPELINE,
        {
            "lag_commits": spark.createDataFrame(commits, OFFSET_COMMITS),
            "end_offsets": spark.createDataFrame(ends, END_OFFSETS),
            "topic_records": spark.createDataFrame(records, TOPIC_RECORDS),
        },
    )
    assert_schema_equality(frames["lag"].schema, LAG, ignore_nullable=True)
    assert_schema_equality(frames["lag_history"].schema, LAG_HISTORY, ignore_nullable=True)
    assert sorted(map(tuple, frames["lag"].collect())) == [
        ("g", "t", 0, 40, 0, 50, 10, False, False, plain(2_000), plain(3_000)),
        ("g", "t", 2, 9, 0, 8, 0, True, False, plain(1_000), plain(3_000)),
        ("g", "t", 3, 1, 4, 6, 5, False, True, plain(1_000), plain(3_000)),
        ("h", "t", 2, 5, 0, 8, 3, False, False, plain(2_500), plain(3_000)),
    ]
    history: dict[tuple[str, str, int], list[Any]] = {}
    for row in frames["lag_history"].orderBy("at", "end_offset", "committed_offset").collect():
        ms = (row["at"] - plain(0)) // timedelta(milliseconds=1)
        found = (ms, row["event"], row["committed_offset"], row["end_offset"], row["lag"], row["is_beyond_end"])
        history.setdefault((row["group"], row["topic"], row["partition"]), []).append(found)
    assert history == {
        ("g", "t", 0): [
            (50, "end", None, 12, None, None),
            (100, "commit", 10, 12, 2, False),
            (1_000, "end", 10, 19, 9, False),
            (1_220, "end", 10, 30, 20, False),
            (1_990, "end", 10, 35, 25, False),
            (2_000, "end", 10, 45, 35, False),  # of the same moment as the commit, and before it
            (2_000, "commit", 40, 45, 5, False),
            (3_000, "end", 40, 50, 10, False),
        ],
        ("g", "t", 1): [
            (300, "commit", 7, None, None, None),
            (1_500, "tombstone", None, None, None, None),
            (3_000, "end", None, 9, None, None),
        ],
        ("g", "t", 2): [(1_000, "commit", 9, None, None, None), (3_000, "end", 9, 8, 0, True)],
        ("g", "t", 3): [(1_000, "commit", 1, None, None, None), (3_000, "end", 1, 6, 5, False)],
        ("g", "gone", 0): [(1_000, "commit", 3, None, None, None)],
        ("h", "t", 2): [(2_500, "commit", 5, None, None, None), (3_000, "end", 5, 8, 3, False)],
    }
    [first, *_] = PIPELINE.overview(frames["lag"]).collect()
    assert first.asDict() == {
        "group": "g",
        "topic": "t",
        "partitions": 3,
        "lag": 15,
        "worst": "0: 10",
        "beyond": 1,
        "last commit": "01-01 00:00:02",
    }
