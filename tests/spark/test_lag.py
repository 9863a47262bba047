"""The pipeline `lag` on commits and end offsets that are written out here, with all special cases; its times against the plain rules."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.history.time_lag import (
    LogEnd,
    Position,
    RecordTime,
    RecordTimes,
    drain_time,
    freshness,
    next_record_age,
    rate,
    since_truncation,
)
from ottla.spark.pipelines.lag import PIPELINE, TOPIC_RECORDS
from ottla.spark.runner.pipeline_run import run
from ottla.spark.schemas import END_OFFSETS, LAG, LAG_HISTORY, OFFSET_COMMITS

START = datetime(2026, 1, 1, tzinfo=UTC)
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def plain(ms: int) -> datetime:
    """A time as PySpark returns it, without a zone."""
    return at(ms).replace(tzinfo=None)


def commit(offset: int, partition: int, committed: int | None, ms: int, *, topic: str = "t", group: str = "g") -> tuple[Any, ...]:
    gone = committed is None
    value = (None,) * 6 if gone else (committed, -1, "", at(ms), None, None)
    return (3, offset, at(ms), group, topic, partition, gone, *value, 1, None if gone else 4)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark returns times without a zone, in the zone of the process."""
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
        commit(8, 0, LONG_MIN, 1, topic="absurd", group="i"),
        commit(9, 1, LONG_MAX, 1, topic="absurd", group="i"),
    ]
    ends = [("t", 0, 0, 50, at(3_000)), ("t", 1, 0, 9, at(3_000)), ("t", 2, 0, 8, at(3_000)), ("t", 3, 4, 6, at(3_000))]
    ends += [("absurd", partition, 0, 5, at(3_000)) for partition in (0, 1)]
    # The record at offset 29 says that it is older than the one at 19, before it: it moves no end back in time.
    records = [("t", 0, 11, at(50)), ("t", 0, 29, at(1_000)), ("t", 0, 19, at(1_220)), ("t", 0, 34, at(1_990)), ("t", 0, 44, at(2_000))]
    frames = run(
        PIPELINE,
        {
            "lag_commits": spark.createDataFrame(commits, OFFSET_COMMITS),
            "end_offsets": spark.createDataFrame(ends, END_OFFSETS),
            "past_end_offsets": spark.createDataFrame([], END_OFFSETS),
            "topic_records": spark.createDataFrame(records, TOPIC_RECORDS),
        },
    )
    assert_schema_equality(frames["lag"].schema, LAG, ignore_nullable=True)
    assert_schema_equality(frames["lag_history"].schema, LAG_HISTORY, ignore_nullable=True)
    lags = frames["lag"].collect()
    assert sorted(tuple(row)[:11] for row in lags) == [
        ("g", "t", 0, 40, 0, 50, 10, False, False, plain(2_000), plain(3_000)),
        ("g", "t", 2, 9, 0, 8, 0, True, False, plain(1_000), plain(3_000)),
        ("g", "t", 3, 1, 4, 6, 5, False, True, plain(1_000), plain(3_000)),
        ("h", "t", 2, 5, 0, 8, 3, False, False, plain(2_500), plain(3_000)),
        ("i", "absurd", 0, LONG_MIN, 0, 5, None, False, True, plain(1), plain(3_000)),
        ("i", "absurd", 1, LONG_MAX, 0, 5, 0, True, False, plain(1), plain(3_000)),
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
        ("i", "absurd", 0): [(1, "commit", LONG_MIN, None, None, None), (3_000, "end", LONG_MIN, 5, None, False)],
        ("i", "absurd", 1): [(1, "commit", LONG_MAX, None, None, None), (3_000, "end", LONG_MAX, 5, 0, True)],
    }
    # Of the rows that are there: to compute the lags again takes long.
    [first, *_] = PIPELINE.overview(spark.createDataFrame(lags, LAG)).collect()
    assert first.asDict() == {
        "group": "g",
        "topic": "t",
        "partitions": 3,
        "lag": 15,
        "worst": "0: 10",
        "beyond": 1,
        "age s": 1,
        "last commit": "01-01 00:00:02",
    }


EMPTY = ("lag_commits", OFFSET_COMMITS), ("end_offsets", END_OFFSETS), ("past_end_offsets", END_OFFSETS), ("topic_records", TOPIC_RECORDS)
NOW_MS = 1_200_000


class Partition:
    """One partition that groups read: idle, empty, compacted, truncated, re-created, or with a start beyond their commits."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.number = number
        self.commits: list[tuple[int, int]] = []
        size = rng.choice([0, 1, 5, 40])
        self.start = rng.choice([0, 0, 3, size])
        times = sorted(rng.randrange(NOW_MS) for _ in range(size))
        # Every record, or those that compaction left, or none of which the timestamps are read; some clocks go wrong.
        kept = rng.choice([0.0, 0.0, 0.3, 1.0])
        self.records = [
            RecordTime(offset, ms + rng.choice([0, 0, 0, 90_000]))
            for offset, ms in enumerate(times)
            if offset >= self.start and rng.random() < kept
        ]
        self.end = max(size, self.start)
        asked = sorted(rng.randrange(NOW_MS) for _ in range(rng.choice([0, 1, 3, 20])))
        self.history = [LogEnd(ms, sum(each <= ms for each in times)) for ms in asked]
        if rng.random() < 0.3 and asked:  # as it was before the topic was re-created
            self.history += [LogEnd(rng.randrange(asked[0] + 1), 500), LogEnd(rng.randrange(asked[0] + 1), 400)]
        ages = rng.choice([(), (10, 60, 900)])
        self.past = [LogEnd(NOW_MS - age * 1_000, sum(each < NOW_MS - age * 1_000 for each in times)) for age in ages]
        for _ in range(rng.randrange(1, 5)):
            committed = rng.choice([0, self.end, self.end, self.end + 7, rng.randrange(self.end + 1), rng.randrange(self.end + 1)])
            self.commits.append((rng.choice([100, 700_000, NOW_MS - 1, NOW_MS + 5, rng.randrange(NOW_MS)]), committed))

    def expected(self) -> tuple[Any, ...]:
        """The lags of the last commit."""
        measured = since_truncation([*self.history, LogEnd(NOW_MS, self.end)])
        ends = [*measured, *self.past, *self.topic_ends()]
        at_end = Position(self.commits[-1][1], self.start, self.end, NOW_MS)
        times = RecordTimes(self.records, ends)
        rates = rate(self.commits, NOW_MS), rate(ends, NOW_MS)
        return (*next_record_age(at_end, times), *freshness(at_end, times), *rates, *drain_time(at_end, *rates))

    def topic_ends(self) -> list[LogEnd]:
        """By the timestamps of the records; the test above has the rule in detail."""
        steps: dict[int, list[RecordTime]] = {}
        for each in self.records:
            steps.setdefault(each.at_ms // 100, []).append(each)
        found, in_order = [], sorted(steps)
        for at_step, step in enumerate(in_order):
            last = max(each.offset for before in in_order[: at_step + 1] for each in steps[before])
            later = [each.offset for after in in_order[at_step + 1 :] for each in steps[after]]
            found.append(LogEnd(max(each.at_ms for each in steps[step]), min([last + 1, *later])))
        return found


@pytest.mark.usefixtures("in_utc")
def test_lags_in_time_are_those_of_the_plain_rules(spark: Any) -> None:
    rng = random.Random(20260103)
    partitions = [Partition(rng, number) for number in range(400)]
    offset = 0
    schemas = {**dict(EMPTY), "end_offset_history": END_OFFSETS}
    rows: dict[str, list[Any]] = {name: [] for name in schemas}
    for each in partitions:
        for ms, committed in each.commits:
            rows["lag_commits"].append(commit(offset, each.number, committed, ms))
            offset += 1
        rows["end_offsets"].append(("t", each.number, each.start, each.end, at(NOW_MS)))
        rows["end_offset_history"] += [("t", each.number, 0, point.end, at(point.at_ms)) for point in each.history]
        rows["past_end_offsets"] += [("t", each.number, None, point.end, at(point.at_ms)) for point in each.past]
        rows["topic_records"] += [("t", each.number, record.offset, at(record.at_ms)) for record in each.records]
    found = run(PIPELINE, {name: spark.createDataFrame(each, schemas[name]) for name, each in rows.items()})["lag"].collect()
    assert len(found) == len(partitions)
    seen = set()
    for row in found:
        each = partitions[row["partition"]]
        # What kafka-consumer-groups prints as LAG: LOG-END-OFFSET - CURRENT-OFFSET, here without negative ones.
        assert row["lag"] == max(0, each.end - each.commits[-1][1])
        names = ("next_record_age_ms", "next_record_age_quality", "freshness_ms", "freshness_quality")
        lags = tuple(row[name] for name in (*names, "consumed_per_s", "produced_per_s", "drain_ms", "drain_quality"))
        assert lags == each.expected(), vars(each)
        seen |= {lags[at] for at in (1, 3, 7)}
    assert seen == {"exact", "interpolated", "extrapolated-capped", "unknown"}


def test_without_commits_ends_or_records_there_are_no_rows(spark: Any) -> None:
    empty = {name: spark.createDataFrame([], schema) for name, schema in EMPTY}
    assert [frame.collect() for frame in run(PIPELINE, empty).values()] == [[], []]
