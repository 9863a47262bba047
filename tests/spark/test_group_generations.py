"""The pipelines `group_generations` and `offset_commits` on records that are written out here: the changes from one to the next."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from chispa.schema_comparer import assert_schema_equality

from ottla.spark.pipelines import group_generations, offset_commits
from ottla.spark.runner.pipeline_run import run
from ottla.spark.schemas import GROUP_EPOCHS, GROUP_GENERATIONS, GROUP_RECORD_COUNTS, GROUP_RECORDS, OFFSET_COMMITS

START = datetime(2026, 1, 1, tzinfo=UTC)
SYNC_MS = 30
Member = dict[str, Any]


def member(name: str, partitions: list[int] | None, *, instance: str | None = None, topics: tuple[str, ...] = ("t",)) -> Member:
    return {
        "member_id": name,
        "group_instance_id": instance,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 300_000,
        "session_timeout": 45_000,
        "subscribed_topics": list(topics),
        "owned_partitions": None,
        "assignment": None if partitions is None else {"t": partitions},
    }


def record(offset: int, *, record_type: int | None = 2, is_known: bool = True, **values: Any) -> dict[str, Any]:
    at = START + timedelta(seconds=offset)
    row = dict.fromkeys(GROUP_RECORDS.fieldNames()) | {"partition": 7, "offset": offset, "timestamp": at, "record_type": record_type}
    return row | {"is_known": is_known, "is_tombstone": False, "group": "g", "value_version": 3} | values


def generation(offset: int, number: int, *members: Member, protocol: str | None = "range", **values: Any) -> dict[str, Any]:
    state = START + timedelta(seconds=offset, milliseconds=-SYNC_MS)
    return record(
        offset, protocol_type="consumer", generation=number, protocol=protocol, state_timestamp=state, members=list(members), **values
    )


def modern(offset: int, record_type: int, key: dict[str, Any], value: dict[str, Any] | None) -> dict[str, Any]:
    text = {"key": {"type": str(record_type), "data": key}, "value": None if value is None else {"version": "0", "data": value}}
    return record(offset, record_type=record_type, group="m", record=json.dumps(text), is_tombstone=value is None)


def test_generations_with_their_changes(spark: Any) -> None:
    a, b = member("a", [0, 1]), member("b", [2, 3])
    both = (member("a", [0, 1]), member("s-1", [2, 3], instance="s"))
    records = [
        generation(0, 0, protocol=None),  # the Java coordinator's empty record at the first join
        generation(1, 1, member("a", [0, 1, 2, 3])),
        generation(2, 2, a, b),
        generation(3, 5, b, member("a", [0, 1])),  # two rounds did not sync; the order of members means nothing
        generation(4, 6, member("b", [0, 1, 2, 3])),
        generation(5, 7, *both),
        generation(6, 7, both[0], member("s-2", [2, 3], instance="s")),  # static: the same generation
        generation(7, 8, member("a", [0, 1, 4], topics=("t", "u")), member("s-2", [2, 3, 5], instance="s"), protocol="roundrobin"),
        generation(8, 9, member("x", None)),  # an assignment that is no consumer's
        generation(9, 10),
        record(10, is_tombstone=True, value_version=None),
        generation(11, 1, member("a", [0])),
        generation(12, 1, member("z", [0]), group="other"),
    ]
    frames = run(group_generations.PIPELINE, {"group_records": spark.createDataFrame(records, GROUP_RECORDS)})
    found = frames["group_generations"]
    assert_schema_equality(found.schema, GROUP_GENERATIONS, ignore_nullable=True)
    rows = found.orderBy("offset").collect()
    assert [(row["generation"], " ".join(row["changes"]), row["sync_ms"], row["generations_skipped"]) for row in rows] == [
        (0, "FIRST", None, None),
        (1, "MEMBERS_JOINED", SYNC_MS, 0),
        (2, "MEMBERS_JOINED PARTITIONS_MOVED", SYNC_MS, 0),
        (5, "UNCHANGED", SYNC_MS, 2),
        (6, "MEMBERS_LEFT PARTITIONS_MOVED", SYNC_MS, 0),
        (7, "MEMBERS_JOINED MEMBERS_LEFT PARTITIONS_MOVED", SYNC_MS, 0),
        (7, "STATIC_MEMBER_REPLACED", None, 0),
        (8, "PROTOCOL_CHANGED SUBSCRIPTION_CHANGED PARTITIONS_ADDED", SYNC_MS, 0),
        (9, "MEMBERS_JOINED MEMBERS_LEFT PROTOCOL_CHANGED", SYNC_MS, 0),
        (10, "EMPTIED MEMBERS_LEFT", None, 0),
        (None, "DELETED", None, None),
        (1, "FIRST", SYNC_MS, None),
        (1, "FIRST", SYNC_MS, None),
    ]
    plans = [tuple(row[f"partitions_{what}"] for what in ("assigned", "moved", "new")) for row in rows]
    assert plans[:5] == [(0, 0, 0), (4, 0, 4), (4, 2, 0), (4, 0, 0), (4, 2, 0)]
    assert plans[5:] == [(4, 4, 0), (4, 0, 0), (6, 0, 2), (0, 0, 0), (0, 0, 0), (None, None, None), (1, 0, 0), (1, 0, 1)]
    assert [(row["joined"], row["left"], row["replaced"]) for row in rows[4:8]] == [
        ([], ["a"], []),
        (["a", "s"], ["b"], []),
        ([], [], ["s"]),
        ([], [], []),
    ]
    assert rows[5]["members"][1].asDict(recursive=True) == both[1]
    assert rows[10]["is_tombstone"]
    assert rows[10]["members"] is None
    overview = group_generations.PIPELINE.overview(found).collect()
    assert [row["moved"] for row in overview[:3]] == ["0/0", "0/4", "2/4"]
    assert [(row["joined"], row["left"]) for row in overview[4:6]] == [([], ["a"]), (["a", "s"], ["b"])]


def test_epochs_counts_and_commits(spark: Any) -> None:
    group, of_member = {"groupId": "m"}, {"groupId": "m", "memberId": "a"}
    commit = {"topic": "t", "topic_partition": 1, "committed_offset": 5, "leader_epoch": -1, "metadata": "", "commit_timestamp": START}
    records = [
        record(0, record_type=1, **commit, value_version=4),
        record(1, record_type=1, topic="t", topic_partition=1, is_tombstone=True, value_version=None),
        record(2, record_type=0, **commit, value_version=1, expire_timestamp=START),
        record(3, record_type=1, topic="t", topic_partition=2, is_known=False, value_version=99),
        record(4, record_type=55, is_known=False, value_version=None, group=None),
        record(5, record_type=55, is_known=False, value_version=None, group=None),
        record(6, record_type=None, is_known=False, value_version=None, group=None),
        modern(7, 3, group, {"epoch": 2, "metadataHash": -5}),
        modern(8, 6, group, {"assignmentEpoch": 2}),
        modern(9, 8, of_member, {"memberEpoch": 2, "previousMemberEpoch": 0, "state": 1, "assignedPartitions": []}),
        modern(10, 8, of_member, None),
        modern(11, 5, of_member, {"clientId": "c"}),
    ]
    frame = spark.createDataFrame(records, GROUP_RECORDS).cache()
    epochs = run(group_generations.PIPELINE, {"group_records": frame})["group_epochs"]
    assert_schema_equality(epochs.schema, GROUP_EPOCHS, ignore_nullable=True)
    assert [tuple(row)[3:] for row in epochs.orderBy("offset").collect()] == [
        ("m", 3, False, None, 2, None, None, -5),
        ("m", 6, False, None, 2, None, None, None),
        ("m", 8, False, "a", 2, 0, 1, None),
        ("m", 8, True, "a", None, None, None, None),
    ]
    frames = run(offset_commits.PIPELINE, {"group_records": frame})
    assert_schema_equality(frames["offset_commits"].schema, OFFSET_COMMITS, ignore_nullable=True)
    assert_schema_equality(frames["group_record_counts"].schema, GROUP_RECORD_COUNTS, ignore_nullable=True)
    commits = [row.asDict() for row in frames["offset_commits"].orderBy("offset").collect()]
    assert [(row["offset"], row["is_tombstone"], row["committed_offset"], row["record_type"]) for row in commits] == [
        (0, False, 5, 1),
        (1, True, None, 1),
        (2, False, 5, 0),
    ]
    counts = {tuple(row)[1:5]: tuple(row)[5:] for row in frames["group_record_counts"].collect()}
    assert counts[55, None, False, False] == (2, 4, 5)
    assert counts[None, None, False, False] == (1, 6, 6)
    assert counts[1, 99, False, False] == (1, 3, 3)
    assert sum(records for records, *_ in counts.values()) == 12
    [overview] = offset_commits.PIPELINE.overview(frames["offset_commits"]).collect()
    assert tuple(overview)[:5] == ("g", "t", 1, 2, 1)
    frame.unpersist()
