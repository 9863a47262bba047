"""The pipeline `group_status` against Burrow's way to the same status: every commit and every end, one after the other."""

import random
from collections import defaultdict, deque
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.history.burrow import LOG_END_INTERVAL_MS, BurrowSettings, CommitWindow, GroupStatus, Partition, Status, evaluate_group
from ottla.spark.pipelines.group_status import END_AGE_MAX_MS, PIPELINE, configure
from ottla.spark.runner.pipeline_run import run
from ottla.spark.runner.text_table import table_text
from ottla.spark.schemas import COMMITTED, END_OFFSETS, GROUP_STATUS

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
NOW_MS = 600_000
PARTITIONS = {"t": 3, "u": 1, "empty": 1}


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


class Made(NamedTuple):
    """One commit (`committed` None: deleted) or, without a group, one measured end."""

    ms: int
    topic: str
    partition: int
    offset: int
    group: str | None = None
    committed: int | None = None
    end: int = 0


def history(rng: random.Random, groups: int) -> list[Made]:
    """Logs that grow, stand still or are truncated, and groups that keep up, fall behind, stop, stall, rewind, or delete offsets."""
    made, record = [], 0
    for topic, count in PARTITIONS.items():
        for partition in range(count):
            end, speed = rng.randrange(50), rng.choice([0, 0, 1, 5, 20])
            for ms in range(0, NOW_MS + 1, 10_000):
                end = end // 2 if rng.random() < 0.01 else end + rng.randrange(speed + 1)
                if ms == NOW_MS or rng.random() < 0.9:
                    made.append(Made(ms, topic, partition, -1, end=end))
    ends: dict[tuple[str, int], list[Made]] = defaultdict(list)
    for each in made:
        ends[each.topic, each.partition].append(each)
    for number in range(groups):
        for topic, count in {**PARTITIONS, "gone": 1}.items():
            if topic == "empty" or rng.random() < 0.3:
                continue
            for partition in range(count):
                ms, stop = rng.randrange(0, NOW_MS), rng.choice([NOW_MS, NOW_MS, 400_000])
                every, back = rng.choice([1_000, 7_000, 30_000]), rng.choice([0, 0, 5, 30])
                held, slow = rng.random() < 0.2, rng.random() < 0.3
                committed = 3
                while ms < stop:
                    known = [each.end for each in ends[topic, partition] if each.ms <= ms]
                    if not held:
                        end = known[-1] if known else 0
                        committed = end // 2 if slow else max(0, end - rng.randrange(back + 1) + rng.choice([0, 0, 0, 1]))
                    is_deleted = rng.random() < 0.01
                    made.append(Made(ms, topic, partition, record, f"g{number:02}", None if is_deleted else committed))
                    record += 1
                    ms += rng.choice([every, every, every + 13, 0, -1])
    return made


def expected(made: list[Made], settings: BurrowSettings) -> dict[str, GroupStatus]:
    """What Burrow has in memory after all of it."""
    ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for each in made:
        if each.group is None:
            ends.setdefault((each.topic, each.partition), []).append((each.ms, each.end))
    windows: dict[str, dict[tuple[str, int], CommitWindow]] = {}
    for each in sorted((each for each in made if each.group), key=lambda each: each.offset):
        place = each.topic, each.partition
        of_group = windows.setdefault(each.group or "", {})
        if each.committed is None:
            of_group.pop(place, None)
            continue
        known = [(ms, end) for ms, end in ends.get(place, []) if ms <= each.ms][-1:]
        lag = max(0, known[0][1] - each.committed) if known and each.ms - known[0][0] <= END_AGE_MAX_MS else None
        of_group.setdefault(place, CommitWindow(settings)).add(each.committed, START_MS + each.ms, lag)
    found = {}
    for group, of_group in windows.items():
        topics = {topic for topic, _ in of_group if (topic, 0) in ends}
        partitions = []
        for place, measured in ends.items():
            if place[0] in topics:
                slots = {(START_MS + ms) // LOG_END_INTERVAL_MS: end for ms, end in measured}
                commits = of_group[place].commits if place in of_group else ()
                partitions.append(Partition(*place, commits, deque(slots.values(), settings.intervals), measured[-1][1]))
        if topics:
            found[group] = evaluate_group(partitions, START_MS + NOW_MS, settings)
    return found


def frames(spark: Any, made: list[Made]) -> dict[str, Any]:
    commits = [
        (each.group, each.topic, each.partition, each.offset, each.committed is None, each.committed, at(each.ms))
        for each in made
        if each.group
    ]
    ends = [(each.topic, each.partition, None, each.end, at(each.ms)) for each in made if each.group is None]
    return {
        "group_status_commits": spark.createDataFrame(commits, COMMITTED),
        "end_offsets": spark.createDataFrame([end for end in ends if end[-1] == at(NOW_MS)], END_OFFSETS),
        "group_status_ends": spark.createDataFrame(ends, END_OFFSETS),
        "past_end_offsets": spark.createDataFrame(ends[:50], END_OFFSETS),
    }


SETTINGS = ({}, {"intervals": "4", "min-distance": "5", "allowed-lag": "2"}, {"minimum-complete": "1", "intervals": "15"})


@pytest.mark.parametrize("texts", SETTINGS)
def test_equal_to_burrow_that_saw_everything(spark: Any, texts: dict[str, str]) -> None:
    settings = BurrowSettings.parse(texts)
    made = history(random.Random(20260102), 60)
    frame = run(configure(texts), frames(spark, made))["group_status"]
    assert_schema_equality(frame.schema, GROUP_STATUS, ignore_nullable=True)
    rows = {row["group"]: row for row in frame.collect()}
    groups = expected(made, settings)
    assert set(rows) == set(groups)
    for group, found in groups.items():
        row = rows[group]
        assert (row["status"], row["complete"], row["total_lag"]) == (found.status.name, found.complete, found.total_lag)
        assert (row["maxlag"] and row["maxlag"]["current_lag"]) == (found.maxlag and found.maxlag.current_lag)
        assert [
            (each["topic"], each["partition"], each["status"], each["current_lag"], each["complete"], each["end"] and each["end"]["offset"])
            for each in row["partitions"]
        ] == [
            (each.topic, each.partition, each.status.name, each.current_lag, each.complete, each.end and each.end.offset)
            for each in found.partitions
        ]
    seen = {each.status for found in groups.values() for each in found.partitions}
    if not texts:
        assert seen == set(Status) - {Status.NOTFOUND, Status.ERR}


def test_nothing_at_all_and_the_overview(spark: Any) -> None:
    empty = {
        name: spark.createDataFrame([], COMMITTED if name == "group_status_commits" else END_OFFSETS)
        for name in ("group_status_commits", "end_offsets", "group_status_ends", "past_end_offsets")
    }
    assert run(PIPELINE, empty)["group_status"].collect() == []
    made = [Made(0, "t", 0, -1, end=20), Made(NOW_MS, "t", 0, -1, end=90), Made(1_000, "t", 0, 0, "g", 10), Made(2_000, "t", 0, 1, "g", 10)]
    text = table_text(PIPELINE.overview(run(PIPELINE, frames(spark, made))["group_status"]), width=80)
    assert text.splitlines()[0].split() == ["group", "status", "partitions", "lag", "greatest", "lag", "its", "lag", "complete"]
    assert text.splitlines()[2].split() == ["g", "ERR", "STOP", "80", "t-0", "80", "0", "%"]
