"""Rows to evidence, and what is no record; whole histories are compared with the command in tests/spark/test_verdicts.py."""

import json
from typing import Any

import pytest

from ottla.history.sources.evidence import Kind
from ottla.protocol.errors import PeerError
from ottla.spark.evidence_rows import decode, evidence_of_rows, judge_rows
from ottla.spark.schemas import VERDICTS

EMPTY: dict[str, Any] = dict.fromkeys(("event", "spans", "members", "record", "leader", "protocol", "state_ms"))


def generation(at_ms: int, number: int, *members: str) -> dict[str, Any]:
    rows = [
        {
            "member_id": name,
            "group_instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "rebalance_timeout": 300_000,
            "session_timeout": 45_000,
            "subscribed_topics": None,
            "owned_partitions": None,
            "assignment": [("t", [0])],
        }
        for name in members
    ]
    head = {"group": "g", "partition": 3, "at_ms": at_ms, "record_type": 2, "is_tombstone": False}
    return {**EMPTY, **head, "generation": number, "members": rows}


def spans(*offsets: int) -> dict[str, Any]:
    span = {"topic": "t", "topic_id": "", "topic_partition": 0, "first_ms": 5, "last_ms": 9, "commit_count": 2}
    return {**EMPTY, "partition": 3, "spans": [{**span, "first_offset": each, "last_offset": each + 1} for each in offsets]}


def test_records_commits_and_events_become_evidence():
    event = json.dumps({"at_ms": 1, "group": "g", "kind": "trigger", "generation": 1, "trigger": "JOIN_NEW"})
    rows = [generation(0, 1, "a"), spans(7), generation(20, 2, "a", "b"), {**EMPTY, "partition": 0, "event": event}]
    found = list(evidence_of_rows("g", rows))
    assert [each.kind for each in found] == [Kind.SYNC_COMPLETED, Kind.COMMITS, Kind.SYNC_COMPLETED, Kind.TRIGGER]
    assert (found[1].at_ms, *found[1].commits.values()) == (9, (5, 9, 7, 8, 2))
    assert [len(each.members or ()) for each in found] == [1, 0, 2, 0]
    assert {each.clock for each in found} == {"__consumer_offsets-3", "__ottla_group_events-0"}


def test_what_is_no_event_or_no_record_is_left_out():
    broken = {**EMPTY, "partition": 0, "event": "no event"}
    unknown = {**generation(0, 1), "record_type": 5, "record": "{}"}
    assert list(evidence_of_rows("g", [broken, unknown])) == []
    with pytest.raises(PeerError, match="not the JSON of a record"):
        decode({"record_type": 5, "record": None}, None)


def test_a_verdict_has_the_tables_columns():
    [row, *_] = judge_rows("g", [generation(0, 1, "a"), generation(60_000, 2, "a", "b")])
    assert set(row) == set(VERDICTS.fieldNames())
