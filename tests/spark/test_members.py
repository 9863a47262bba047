"""The pipeline `members`: random histories of classic groups against a plain walk over their records, and a KIP-848 group written out.

The groups of all tests are in one input, whose tables are computed once: Spark's plans cost more than their rows.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.spark.pipelines.members import MEMBER_RECORDS, PIPELINE
from ottla.spark.runner.pipeline_run import run
from ottla.spark.runner.text_table import table_text
from ottla.spark.schemas import MEMBER_COMMITS

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = 60_000


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def ms_of(time: datetime | None) -> int | None:
    """PySpark returns times without a zone."""
    return None if time is None else (time - START.replace(tzinfo=None)) // timedelta(milliseconds=1)


@pytest.fixture(scope="module", autouse=True)
def in_utc() -> Iterator[None]:
    """In the zone of the process."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TZ", "UTC")
        yield


def classic(offset: int, ms: int, group: str, generation: int | None, members: list[tuple[Any, ...]] | None) -> tuple[Any, ...]:
    """A record of type 2; a member is (id, instance id, client id, {topic: partitions})."""
    rows = None if members is None else [(*each[:3], f"/{each[2]}", 300_000, 10_000, ["t"], None, each[3]) for each in members]
    return (7, offset, at(ms), 2, group, members is None, generation, "range", rows, None)


def consumer(offset: int, ms: int, record_type: int, member: str, value: dict[str, Any] | None) -> tuple[Any, ...]:
    document = {
        "key": {"type": str(record_type), "data": {"groupId": "k", "memberId": member}},
        "value": None if value is None else {"version": "0", "data": value},
    }
    return (8, offset, at(ms), record_type, "k", value is None, None, None, None, json.dumps(document))


def rows_of(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In the order of the schema's columns."""
    names = ("partition", "offset", "timestamp", "record_type", "group", "is_tombstone", "generation", "protocol", "members", "record")
    return [tuple(dict(zip(names, record, strict=True))[name] for name in MEMBER_RECORDS.fieldNames()) for record in records]


def frames(spark: Any, records: list[tuple[Any, ...]], commits: list[tuple[Any, ...]] = ()) -> dict[str, Any]:  # type: ignore[assignment]
    given = {
        "member_records": spark.createDataFrame(rows_of(records), MEMBER_RECORDS),
        "member_commits": spark.createDataFrame(list(commits), MEMBER_COMMITS),
    }
    found = run(PIPELINE, given)
    for name, frame in found.items():
        assert_schema_equality(frame.schema, PIPELINE.outputs[name], ignore_nullable=True)
    return found


def history(rng: random.Random, group: str) -> list[tuple[int, int, list[tuple[Any, ...]] | None]]:
    """(ms, generation, members) of each record; None: the group was deleted."""
    present: list[tuple[str, str | None, str]] = []
    ms, found = 0, []
    for generation in range(1, rng.randrange(2, 12)):
        ms += rng.randrange(1, 100_000)
        present = [each for each in present if rng.random() < 0.7]
        present += [(f"{group}-{generation}-{n}", rng.choice([None, None, f"i{n}"]), rng.choice("ab")) for n in range(rng.randrange(3))]
        if rng.random() < 0.05:
            found.append((ms, generation, None))
            present = []
            continue
        owned = {p: rng.choice(present) for p in range(4) if present and rng.random() < 0.8}
        members = [(*each, {"t": [p for p, owner in owned.items() if owner == each]}) for each in present]
        found.append((ms, generation, members))
    return found


def walk(records: list[tuple[int, int, Any]]) -> tuple[dict[str, tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Members and intervals of ownership, by going through a group's records."""
    members: dict[str, list[Any]] = {}
    owned: dict[int, tuple[str, int, int]] = {}
    intervals = set()
    for ms, generation, found in records:
        now = {each[0]: each for each in found or ()}
        for name, each in members.items():
            if name not in now and each[4] is None:
                each[4] = ms
        for name in now:
            members.setdefault(name, [generation, generation, ms, ms, None])
            members[name][1], members[name][3] = generation, ms
        owners = {p: name for name, each in now.items() for p in each[3]["t"]}
        for p, (name, since_ms, since) in list(owned.items()):
            if owners.get(p) != name:
                intervals.add((p, name, since_ms, ms, since))
                del owned[p]
        for p, name in owners.items():
            owned.setdefault(p, (name, ms, generation))
    intervals |= {(p, name, since_ms, None, since) for p, (name, since_ms, since) in owned.items()}
    return {name: tuple(each) for name, each in members.items()}, intervals


def histories() -> dict[str, list[tuple[int, int, Any]]]:
    rng = random.Random(20260104)
    return {f"g{number}": history(rng, f"g{number}") for number in range(100)}


def records_of(histories: dict[str, list[tuple[int, int, Any]]]) -> list[tuple[Any, ...]]:
    in_order = sorted((record[0], group, record) for group, records in histories.items() for record in records)
    return [classic(offset, ms, group, record[1], record[2]) for offset, (ms, group, record) in enumerate(in_order)]


def kip_848_records() -> list[tuple[Any, ...]]:
    """Records of the group k."""
    metadata = {
        "instanceId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": ["t"],
        "rebalanceTimeoutMs": 300_000,
        "serverAssignor": "uniform",
        "classicMemberMetadata": None,
    }

    def owns(epoch: int, *partitions: int, pending: tuple[int, ...] = ()) -> dict[str, Any]:
        def entry(numbers: tuple[int, ...]) -> list[dict[str, Any]]:
            return [{"topicId": "id-of-t", "partitions": list(numbers)}] if numbers else []

        return {"memberEpoch": epoch, "assignedPartitions": entry(partitions), "partitionsPendingRevocation": entry(pending)}

    return [
        consumer(0, 0, 5, "a", metadata),
        consumer(1, 0, 8, "a", owns(2, 0, 1)),
        consumer(2, 10, 5, "b", {**metadata, "instanceId": "i"}),
        consumer(3, 20, 8, "a", owns(2, 0, pending=(1,))),  # it still has what it shall give up
        consumer(4, 30, 8, "a", owns(3, 0)),
        consumer(5, 40, 8, "b", owns(3, 1)),
        consumer(6, 50, 8, "b", owns(-2)),  # it left for a while
        consumer(7, 60, 8, "a", None),
        consumer(8, 60, 5, "a", None),
    ]


def flapping_records() -> list[tuple[Any, ...]]:
    """Records of the group f."""

    def member(name: str, client: str = "flapping") -> tuple[Any, ...]:
        return (name, None, client, {"t": [0]} if client == "flapping" else {})

    calm = member("calm-1", "calm")
    return [
        classic(0, 0, "f", 1, [calm, member("f-1")]),
        classic(1, 5 * MINUTE, "f", 2, [calm]),
        classic(2, 6 * MINUTE, "f", 3, [calm, member("f-2")]),
        classic(3, 20 * MINUTE, "f", 4, [calm, member("f-3")]),  # out and in again within one rebalance
        classic(4, 40 * MINUTE, "f", 5, [calm]),
        classic(5, 50 * MINUTE, "f", 6, [calm, member("f-4")]),  # back too late to be the same story
        classic(6, 70 * MINUTE, "f", 7, [calm]),
    ]


@pytest.fixture(scope="module")
def found(spark: Any) -> dict[str, list[Any]]:
    """The rows of each table, of the groups of all tests."""
    seen = [classic(0, 0, "o", 1, [("m", "i", "c", {"t": [0]})]), classic(1, 5, "o", None, None)]
    records = [*records_of(histories()), *kip_848_records(), *flapping_records(), *seen]
    # f-1 commits each second until it leaves; f-2 does, too, and then not for its session timeout of 10 s.
    commits = [("f", "t", None, 0, n, at(n * 1_000)) for n in (*range(299), *range(361, 1_190))]
    return {name: frame.collect() for name, frame in frames(spark, records, [*commits, ("k", "t", "id-of-t", 0, 5, at(1))]).items()}


def of_group(rows: list[Any], group: str, *order: str) -> list[Any]:
    return sorted((row for row in rows if row["group"] == group), key=lambda row: [row[name] for name in order])


def test_equal_to_a_walk_over_the_records_of_a_hundred_groups(found: dict[str, list[Any]]) -> None:
    walked = histories()
    members = {
        row["member_id"]: (
            *(row["first_generation"], row["last_generation"]),
            *(ms_of(row[name]) for name in ("joined_at", "last_seen_at", "left_at")),
        )
        for row in found["members"]
        if row["group"] in walked
    }
    intervals: dict[str, set[tuple[Any, ...]]] = {group: set() for group in walked}
    for row in found["ownership"]:
        if row["group"] not in walked:
            continue
        assert (row["topic"], row["topic_id"], row["group_type"]) == ("t", None, "classic")
        interval = (row["partition"], row["member_id"], ms_of(row["from_at"]), ms_of(row["to_at"]), row["first_generation"])
        assert interval not in intervals[row["group"]]
        intervals[row["group"]].add(interval)
    expected: dict[str, tuple[Any, ...]] = {}
    for group, records in walked.items():
        known, owned = walk(records)
        expected |= known
        assert intervals[group] == owned, (sorted(intervals[group] - owned), sorted(owned - intervals[group]), records)
    assert members == expected
    assert {row["group"] for row in found["members"]} == {*walked, "k", "f", "o"} - {
        group for group in walked if not walk(walked[group])[0]
    }


def test_a_kip_848_group(found: dict[str, list[Any]]) -> None:
    names = ("member_id", "group_instance_id", "client_id", "assignor", "session_timeout", "first_generation", "last_generation")
    members = [
        (*(row[name] for name in names), ms_of(row["joined_at"]), ms_of(row["left_at"]))
        for row in of_group(found["members"], "k", "member_id")
    ]
    assert members == [("a", None, "c", "uniform", None, 2, 3, 0, 60), ("b", "i", "c", "uniform", None, 3, 3, 10, 50)]
    owned = [
        (row["topic"], row["topic_id"], row["partition"], row["member_id"], ms_of(row["from_at"]), ms_of(row["to_at"]))
        for row in of_group(found["ownership"], "k", "partition", "from_at")
    ]
    assert owned == [
        ("t", "id-of-t", 0, "a", 0, 60),
        ("t", "id-of-t", 1, "a", 0, 30),
        ("t", "id-of-t", 1, "b", 40, 50),
    ]


def test_a_client_that_comes_and_goes(found: dict[str, list[Any]]) -> None:
    rows = {(row["client_id"], row["hour"].hour): row.asDict() for row in of_group(found["member_churn"], "f")}
    flapping = rows["flapping", 0]
    assert [flapping[name] for name in ("joins", "leaves", "returns", "expiries", "flapping_score")] == [4, 3, 2, 1, 33]
    assert (flapping["shortest_stay_ms"], flapping["shortest_absence_ms"]) == (5 * MINUTE, 0)
    assert [rows["flapping", 1][name] for name in ("joins", "leaves", "returns", "expiries", "flapping_score")] == [0, 1, 0, 0, 0]
    assert [rows["calm", 0][name] for name in ("joins", "leaves", "returns", "flapping_score")] == [1, 0, 0, 0]


def test_no_records_and_the_overview(spark: Any, found: dict[str, list[Any]]) -> None:
    assert [frame.collect() for frame in frames(spark, []).values()] == [[], [], []]
    members = spark.createDataFrame(of_group(found["members"], "o"), PIPELINE.outputs["members"])
    lines = table_text(PIPELINE.overview(members), width=80).splitlines()
    assert lines[2].split() == ["o", "i", "/c", "01-01", "00:00:00", "01-01", "00:00:00", "1-1", "range"]
