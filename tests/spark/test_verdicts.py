"""The pipeline `verdicts` against the same readers and rules on the same records, without Spark."""

import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from chispa.schema_comparer import assert_schema_equality

from ottla.groups.events import GroupEvent
from ottla.groups.log.arrow.decoder import GroupRecordDecoder
from ottla.groups.log.records import EvidenceDecoder
from ottla.history.incidents import find_incidents
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from ottla.history.story.incident_texts import incident_dict, utc_text
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Verdict
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.spark.pipelines.verdicts import GROUP_RECORDS, PIPELINE
from ottla.spark.runner.pipeline_run import run
from ottla.spark.runner.text_table import table_text
from ottla.spark.schemas import GROUP_EVENTS_TOPIC, INCIDENTS, KAFKA, VERDICTS
from tests.support.kit.offsets_topic_records import (
    Pair,
    classic_group,
    commit,
    consumer_member,
    current_of,
    gone,
    group_epoch,
    member,
    record_key,
    target_epoch,
    target_of,
)

PARTITION = 7


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark returns times without a zone, in the zone of the process."""
    monkeypatch.setenv("TZ", "UTC")


def classic(rng: random.Random, group: str) -> list[tuple[int, Pair]]:
    """Members come, go, come back under a new id, and commit; static ones are replaced; the group is deleted now and then."""
    ms, generation, found = rng.randrange(10**6), 0, []
    present: dict[str, str] = {}
    for _ in range(rng.randrange(1, 15)):
        for _ in range(rng.randrange(30)):
            ms += rng.randrange(5_000)
            found.append((ms, commit(group, rng.randrange(4), rng.choice([None, *range(9)]))))
        ms += rng.choice([500, 10_000, 400_000])
        what = rng.random()
        if what < 0.05:
            found.append((ms, (record_key(2, group), None)))
            present = {}
            continue
        name = rng.choice("abcd")
        if name in present and what < 0.6:
            del present[name]
        else:
            present[name] = f"{name}-{rng.randrange(10**9)}"
        if not (what > 0.95 and name == "d"):  # d is static, and may be replaced without a rebalance
            generation += rng.choice([1, 1, 1, 2])
        owners = [[p for p in range(4) if p % len(present) == at] for at in range(len(present))]
        owned = (0,) if rng.random() < 0.2 else ()
        members = [
            member(each, owners[at], instance_id="d" if name == "d" else None, owned=owned)
            for at, (name, each) in enumerate(present.items())
        ]
        found.append(
            (ms, classic_group(group, generation, *members, joined_ms=ms - rng.randrange(400), protocol=rng.choice(["range", "sticky"])))
        )
    return found


def consumer(rng: random.Random, group: str) -> list[tuple[int, Pair]]:
    ms, epoch, found = 1, 1, []
    present: list[str] = []
    for number in range(rng.randrange(1, 8)):
        ms += rng.choice([300, 60_000])
        if present and rng.random() < 0.4:
            found += [(ms, pair) for pair in gone(group, present.pop())]
        else:
            present.append(f"m{number}")
            found.append((ms, consumer_member(group, present[-1])))
        epoch += 1
        found += [(ms, group_epoch(group, epoch, rng.choice([7, 7, 8]))), (ms, target_epoch(group, epoch))]
        for at, name in enumerate(present):
            found += [(ms + at, target_of(group, name, at)), (ms + at, current_of(group, name, epoch, at))]
        found.append((ms + 20, commit(group, 0, number)))
    return found


def in_order(*histories: list[tuple[int, Pair]]) -> list[Record]:
    timed = sorted((each for history in histories for each in history), key=lambda each: each[0])
    return [Record(offset, ms, *pair) for offset, (ms, pair) in enumerate(timed)]


def rows_of(spark: Any, records: list[Record]) -> Any:
    """As the source has them."""
    if not records:
        return spark.createDataFrame([], GROUP_RECORDS)
    decoder = GroupRecordDecoder(PARTITION, columns=tuple(GROUP_RECORDS.fieldNames()))
    batches = decoder.decode(bytes(encode_batch(records)))
    return spark.createDataFrame(pa.Table.from_batches(batches), GROUP_RECORDS)


def events_of(spark: Any, events: list[GroupEvent]) -> Any:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values = [*(json.dumps(event.to_dict()).encode() for event in events), b"no event", b'{"group": "g"}']
    return spark.createDataFrame([(None, value, GROUP_EVENTS_TOPIC, 0, offset, now, 0) for offset, value in enumerate(values)], KAFKA)


def judged(spark: Any, records: list[Record], events: list[GroupEvent] | None = None) -> Any:
    frame = run(PIPELINE, {"group_records": rows_of(spark, records), "group_events_if_any": events_of(spark, events or [])})["verdicts"]
    assert_schema_equality(frame.schema, VERDICTS, ignore_nullable=True)
    return frame


def plain(records: list[Record], events: list[GroupEvent]) -> dict[str, list[Verdict]]:
    """What `ottla diagnose` would say."""
    reader = GroupRecords(PARTITION, decode=EvidenceDecoder().decode, counts=ReadCounts())
    published = evidence_of_events(events, clock=f"{GROUP_EVENTS_TOPIC}-0")
    return judge([*reader.read(records), *reader.finish(), *published])


def as_row(verdict: Verdict) -> dict[str, Any]:
    row = verdict.to_dict()
    for name in ("started", "ended"):
        ms = row.pop(f"{name}_ms")
        row[f"{name}_at"] = None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
    return row


def event(at_ms: int, group: str, kind: str, generation: int, **more: Any) -> GroupEvent:
    return GroupEvent(at_ms=at_ms, group=group, kind=kind, generation=generation, state_from="Stable", state_to="", **more)


def test_the_incidents_are_those_of_the_command(spark: Any) -> None:
    rng = random.Random(20261128)
    records = in_order(*(classic(rng, f"classic-{n}") for n in range(12)), *(consumer(rng, f"consumer-{n}") for n in range(4)))
    found = run(PIPELINE, {"group_records": rows_of(spark, records), "group_events_if_any": events_of(spark, [])})["incidents"]
    assert_schema_equality(found.schema, INCIDENTS, ignore_nullable=True)
    rows = [row.asDict(recursive=True) for row in found.collect()]
    wanted = find_incidents(verdict for verdicts in plain(records, []).values() for verdict in verdicts)
    assert len(wanted) > 10
    assert sorted(row["sentence"] for row in rows) == sorted(incident_dict(each, time_text=utc_text)["sentence"] for each in wanted)
    counts = Counter((each.kind.value, each.groups, each.culprits, len(each.verdicts)) for each in wanted)
    assert Counter((row["incident"], tuple(row["groups"]), tuple(row["culprits"]), len(row["verdicts"])) for row in rows) == counts


def test_the_verdicts_are_those_of_the_command(spark: Any) -> None:
    rng = random.Random(20260105)
    # The name of the topic's id is known from the first record on: the command learns it from commits as they come.
    records = in_order(
        [(0, commit("names", 0, 1))],
        *(classic(rng, f"classic-{n}") for n in range(60)),
        *(consumer(rng, f"consumer-{n}") for n in range(20)),
    )
    events = [
        event(1_000, "events", "trigger", 0, trigger="JOIN_NEW", member_id="a-1", client_id="a", client_host="/h"),
        event(4_000, "events", "join_completed", 1),
        event(4_100, "events", "sync_completed", 1, protocol="range"),
        event(90_000, "events", "trigger", 1, trigger="EXPIRE_HEARTBEAT", member_id="a-1", client_id="a", client_host="/h"),
        event(90_001, "events", "emptied", 2),
    ]
    expected = {group: [as_row(verdict) for verdict in found] for group, found in plain(records, events).items()}
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in judged(spark, records, events).collect():
        rows.setdefault(row["group"], []).append(row.asDict(recursive=True))
    assert sum(map(len, expected.values())) > 300
    assert len({row["cause"] for found in expected.values() for row in found}) > 6
    assert set(rows) == {group for group, found in expected.items() if found}
    for group, found in rows.items():
        assert found == expected[group]


def test_nothing_at_all_and_the_overview(spark: Any) -> None:
    assert judged(spark, []).collect() == []
    records = in_order(
        [(0, classic_group("g", 1, member("a-1", [0]))), (60_000, classic_group("g", 2, member("a-1", [0]), member("b-1", [1])))]
    )
    lines = table_text(PIPELINE.overview(judged(spark, records)), width=80).splitlines()
    assert lines[0].split() == ["group", "started", "gen", "cause", "confidence", "members", "client"]
    assert len(lines) == 4
