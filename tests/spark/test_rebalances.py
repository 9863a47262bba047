"""The pipeline `rebalances` against the plain reference, on random event streams, also impossible ones."""

import datetime
import json
import random
from typing import Any

import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.history.sources.group_events import CODES, KINDS
from ottla.spark.pipelines.rebalances import PIPELINE, rebalance_row
from ottla.spark.runner.pipeline_run import run
from ottla.spark.runner.text_table import overview_text
from ottla.spark.schemas import GROUP_EVENTS_TOPIC, KAFKA, REBALANCES

TRIGGERS = [*CODES, "LEAVE", "JOIN_NEW", "JOIN_NEW", "MOON_PHASE"]
GONE = ["LEAVE", "POLL_TIMEOUT", "EXPIRE_HEARTBEAT", "JOIN_TIMEOUT", "SYNC_TIMEOUT"]
ORDER = ["trigger", "join_completed", "sync_completed"]


def _member(rng: random.Random, partitions: list[int]) -> EventMember:
    client = rng.choice("abc")
    return EventMember(
        member_id=f"{client}-{rng.randrange(4)}",
        instance_id=rng.choice([None, None, None, "i-1", "i-2"]),
        client_id=client,
        client_host=rng.choice(["/h1", "/h1", "/h2"]),
        session_timeout_ms=6_000,
        rebalance_timeout_ms=300_000,
        assignment={topic: [p for p in partitions if rng.random() < 0.7] for topic in ("t", "u") if partitions and rng.random() < 0.7},
    )


def _members(rng: random.Random, kind: str) -> tuple[EventMember, ...]:
    if kind in ("trigger", "emptied", "deleted", "static_replaced"):
        return ()
    shares: list[list[int]] = [[] for _ in range(rng.randrange(4))]
    for partition in range(rng.choice([6, 6, 9])):
        if shares and rng.random() < 0.9:
            rng.choice(shares).append(partition)
    return tuple(_member(rng, share if kind != "join_completed" else []) for share in shares)


def _stream(rng: random.Random, group: str) -> list[GroupEvent]:
    """Events of one group: often in a possible order, sometimes not."""
    events, at_ms, kind = [], rng.randrange(10**6), "deleted"
    for generation in range(rng.randrange(1, 25)):
        sensible = ORDER[(ORDER.index(kind) + 1) % 3] if kind in ORDER else "trigger"
        kind = sensible if rng.random() < 0.7 else rng.choice([*KINDS, "trigger"])
        at_ms += rng.choice([0, 1, 5, 1_000, 200_000])
        is_trigger = kind == "trigger"
        is_known = is_trigger and rng.random() < 0.9
        events.append(
            GroupEvent(
                at_ms=at_ms,
                group=group,
                kind=kind,
                generation=generation,
                state_from=rng.choice(["Stable", "Empty", "PreparingRebalance"]),
                state_to="",
                trigger=rng.choice(TRIGGERS) if is_trigger else None,
                coalesced=rng.random() < 0.5,
                reason=rng.choice([None, "why", "wherefore"]) if is_trigger else None,
                client_id=rng.choice("abc") if is_known else None,
                client_host=rng.choice(["/h1", "/h2"]) if is_known else None,
                client_reason=rng.choice([None, None, "", "the consumer is being closed"]) if is_trigger else None,
                members=_members(rng, kind),
                evidence={"last_heartbeat_age_ms": 3} if is_trigger else {},
            )
        )
    return events


def _records(spark: Any, values: list[bytes]) -> Any:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return spark.createDataFrame([(None, value, GROUP_EVENTS_TOPIC, 0, offset, now, 0) for offset, value in enumerate(values)], KAFKA)


def _encoded(events: list[GroupEvent]) -> list[bytes]:
    return [json.dumps(event.to_dict()).encode() for event in events]


def _key(row: dict[str, Any]) -> str:
    return repr(sorted((name, repr(value)) for name, value in row.items()))


def rebalances(events: list[GroupEvent]) -> list[Rebalance]:
    return [rebalance for history in histories_of_events(events).values() for rebalance in history.generations()]


def _plain_rows(found: list[Rebalance]) -> list[dict[str, Any]]:
    rows = []
    for rebalance in found:
        row = {name: list(value) if isinstance(value, tuple) else value for name, value in rebalance_row(rebalance).items()}
        row["started_at"] = datetime.datetime.fromtimestamp(rebalance.started_ms / 1000, datetime.UTC).replace(tzinfo=None)
        rows.append(row)
    return sorted(rows, key=_key)


def _spark_rows(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=_key)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark returns times without a zone, in the zone of the process."""
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.usefixtures("in_utc")
def test_equal_to_the_plain_reference_on_two_hundred_groups(spark: Any):
    rng = random.Random(20260101)
    streams = [_stream(rng, f"group-{number}") for number in range(200)]
    # Groups share one topic: their events are mixed, each group's stay in order.
    mixed = sorted((event for stream in streams for event in stream), key=lambda event: event.generation)
    expected = _plain_rows(rebalances(mixed))
    assert len(expected) > 700
    assert len({(row["outcome"], row["planned"], row["confidence"]) for row in expected}) > 12
    assert any(row["partitions_moved"] for row in expected)

    frame = run(PIPELINE, {"group_event_records": _records(spark, _encoded(mixed))})["rebalances"]
    assert_schema_equality(frame.schema, REBALANCES, ignore_nullable=True)
    assert _spark_rows(frame) == expected


def _owner(member_id: str) -> EventMember:
    client = member_id.partition("-")[0]
    return EventMember(
        member_id=member_id,
        instance_id=None,
        client_id=client,
        client_host="/h1",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=300_000,
    )


def _event(at_ms: int, group: str, kind: str, trigger: str | None = None, *, generation: int = 1, **fields: Any) -> GroupEvent:
    client = {"client_id": "c", "client_host": "/h1"} if trigger else {}
    return GroupEvent(
        at_ms=at_ms, group=group, kind=kind, generation=generation, state_from="Stable", state_to="", trigger=trigger, **client, **fields
    )


@pytest.mark.usefixtures("in_utc")
def test_a_client_is_back_within_the_limit_to_the_millisecond(spark: Any):
    assert RETURN_WITHIN_MS == 300_000
    events = []
    for code in GONE:
        for away_ms in (RETURN_WITHIN_MS, RETURN_WITHIN_MS + 1):
            group = f"{code} {away_ms}"
            events += [
                _event(0, group, "loaded", members=(_owner("c-1"), _owner("d-1"))),
                _event(0, group, "trigger", code, member_id="c-1"),
                _event(1, group, "join_completed", generation=2, members=(_owner("d-1"),)),
                _event(2, group, "sync_completed", generation=2, members=(_owner("d-1"),)),
                _event(away_ms, group, "trigger", "JOIN_NEW", generation=2, member_id="c-2"),
            ]
    rows = _spark_rows(run(PIPELINE, {"group_event_records": _records(spark, _encoded(events))})["rebalances"])
    assert rows == _plain_rows(rebalances(events))
    planned = {(row["group"], row["trigger"]): row["planned"] for row in rows}
    assert [planned[f"LEAVE {ms}", "LEAVE"] for ms in (RETURN_WITHIN_MS, RETURN_WITHIN_MS + 1)] == [False, True]
    for code in GONE:
        assert [planned[f"{code} {ms}", "JOIN_NEW"] for ms in (RETURN_WITHIN_MS, RETURN_WITHIN_MS + 1)] == [False, True]


def test_records_that_are_no_events_are_left_out(spark: Any):
    values = [b"", b"no json", b"[]", b'{"kind": "trigger"}', b"\xff\xfe", b'{"group": "g"}']
    assert run(PIPELINE, {"group_event_records": _records(spark, values)})["rebalances"].collect() == []


def test_the_overview_fits_a_terminal(spark: Any):
    events = _stream(random.Random(5), "flights")
    frame = run(PIPELINE, {"group_event_records": _records(spark, _encoded(events))})["rebalances"]
    count = len(rebalances(events))
    text = overview_text(PIPELINE, frame, width=80, limit=count, since_ms=None)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:3] == ["group", "started", "gen"]
    assert len(lines) == 2 + count

    latest = overview_text(PIPELINE, frame, width=80, limit=2, since_ms=None).splitlines()
    assert latest == [*lines[:2], *lines[-2:], f"(only the latest 2 of {count} rows)"]
    last_ms = max(each.started_ms for each in rebalances(events))
    (last,) = overview_text(PIPELINE, frame, width=80, limit=2, since_ms=last_ms).splitlines()[2:]
    assert last.split() == lines[-1].split()
