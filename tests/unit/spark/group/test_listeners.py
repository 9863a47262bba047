"""Listeners of streaming queries."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.errors import BrokerUnavailableError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group.listeners import (
    ENDED_MAX,
    ROWS_MAX,
    GroupCommitListener,
    GroupMemberListener,
    MemberProgress,
    member_progress,
    parse_offsets,
)
from ottla.spark.schemas import MEMBER_PROGRESS

MEMBER = {
    "group": "g",
    "member_id": "m-1",
    "generation": 3,
    "owned": {"t": [0, 2]},
    "rebalances": 2,
    "rebalance_ms": 35,
    "stopped_ms": 1500,
    "commits": 4,
    "failures": 1,
    "last_error": "too late",
}


class Coordinator:
    """Grants commits unless it is away; `asked` holds them as {"topic-partition": offset}."""

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []
        self.is_away = False

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> Mapping[TopicPartition, None]:
        if self.is_away:
            raise BrokerUnavailableError("away")
        self.asked.append({f"{topic}-{partition}": offset for (topic, partition), offset in offsets.items()})
        return dict.fromkeys(offsets)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def _source(end: Any, start: Any = "{}", rows: int = 1) -> Any:
    return SimpleNamespace(startOffset=start, endOffset=end if isinstance(end, str) else json.dumps(end), numInputRows=rows)


def _progress(*sources: Any, run: str = "r1", name: str | None = "q") -> Any:
    return SimpleNamespace(progress=SimpleNamespace(name=name, id=f"id of {run}", runId=run, sources=list(sources)))


def _listener(coordinator: Coordinator, groups: Any = "g", **settings: Any) -> GroupCommitListener:
    return GroupCommitListener("127.0.0.1:1", groups, commit=coordinator.commit, **settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t":{"0":23,"1":5},"u":{"0":1}}', {("t", 0): 23, ("t", 1): 5, ("u", 0): 1}),
        ('{"t":{"0":23},"#topic_ids":{"t":"AAAAAAAAAAAAAAAAAAAAAA"}}', {("t", 0): 23}),
        *((other, {}) for other in (None, "None", "null", "17", '{"logOffset":0}', '{"a":{"b":1}}', '{"a":{"0":"x"}}', "[1]", "{")),
    ],
)
def test_offsets_of_both_kafka_sources_and_of_others(text: str | None, expected: object):
    assert parse_offsets(text) == expected


def test_every_batch_is_committed_by_topic_and_not_by_the_position_of_its_source(coordinator: Coordinator):
    listener = _listener(coordinator, {"orders": "shop", "log-*": "logs"})
    listener.onQueryProgress(_progress(_source({"orders": {"0": 3}}), _source({"log-a": {"0": 5}, "log-b": {"0": 6}, "other": {"0": 9}})))
    # A source without news is left out, or says nothing: the other one is in its place.
    listener.onQueryProgress(_progress(_source({"log-a": {"0": 7}, "log-b": {"0": 6}, "other": {"0": 9}})))
    listener.onQueryProgress(_progress(_source("None"), _source({"orders": {"0": 4}})))
    assert coordinator.asked == [{"orders-0": 3}, {"log-a-0": 5, "log-b-0": 6}, {"log-a-0": 7}, {"orders-0": 4}]
    assert [(each["query"], each["group"], each["commits"]) for each in listener.metrics()] == [("q", "shop", 2), ("q", "logs", 2)]


def test_a_topic_that_is_read_twice_is_committed_at_the_lower_offset(coordinator: Coordinator):
    _listener(coordinator).onQueryProgress(_progress(_source({"t": {"0": 9, "1": 2}}), _source({"t": {"0": 4, "1": 5}})))
    assert coordinator.asked == [{"t-0": 4, "t-1": 2}]


def test_where_a_new_query_starts_is_not_committed(coordinator: Coordinator):
    listener = _listener(coordinator)
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}}, start="None", rows=0)))
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}}, rows=0)))
    assert coordinator.asked == []
    listener.onQueryProgress(_progress(_source({"t": {"0": 10}})))
    assert coordinator.asked == [{"t-0": 10}]


def test_only_the_queries_that_were_named(coordinator: Coordinator):
    listener = _listener(coordinator, queries=["q"])
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}}), name="other"))
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}}), name=None))
    assert coordinator.asked == []
    assert listener.metrics() == []


def test_two_running_queries_do_not_overwrite_each_other(coordinator: Coordinator):
    listener = _listener(coordinator)
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}})))
    listener.onQueryProgress(_progress(_source({"t": {"0": 4}, "u": {"0": 1}}), run="r2", name="second"))
    assert coordinator.asked == [{"t-0": 9}, {"u-0": 1}]
    assert listener.metrics()[1]["failures"] == 1
    assert "another running query commits the topic t to the group g" in str(listener.metrics()[1]["last_error"])
    listener.onQueryTerminated(SimpleNamespace(runId="r1"))
    listener.onQueryProgress(_progress(_source({"t": {"0": 5}, "u": {"0": 1}}), run="r2", name="second"))
    assert coordinator.asked[2:] == [{"t-0": 5}]


def test_failures_are_counted_and_retried_at_the_end(coordinator: Coordinator):
    listener = _listener(coordinator)
    coordinator.is_away = True
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}})))
    listener.onQueryIdle(SimpleNamespace(runId="r1"))  # too soon for a new answer
    (metrics,) = listener.metrics()
    assert (metrics["failures"], metrics["last_error"]) == (1, "t-0: BrokerUnavailableError: away")
    coordinator.is_away = False
    listener.onQueryProgress(_progress(_source({"t": {"0": 10}})))
    assert coordinator.asked == []
    listener.onQueryTerminated(SimpleNamespace(runId="r1"))
    assert coordinator.asked == [{"t-0": 10}]
    assert listener.metrics()[0]["commits"] == 1


def test_an_idle_query_commits_nothing_twice(coordinator: Coordinator):
    listener = _listener(coordinator)
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}})))
    listener.onQueryIdle(SimpleNamespace(runId="r1"))
    listener.onQueryIdle(SimpleNamespace(runId="unheard of"))
    assert coordinator.asked == [{"t-0": 9}]


def test_metrics_of_old_queries_are_dropped(coordinator: Coordinator):
    listener = _listener(coordinator)
    for number in range(ENDED_MAX + 3):
        listener.onQueryProgress(_progress(_source({"t": {"0": number}}), run=f"r{number}", name=None))
        listener.onQueryTerminated(SimpleNamespace(runId=f"r{number}"))
    assert [each["query"] for each in listener.metrics()] == [f"id of r{number}" for number in range(3, ENDED_MAX + 3)]


def test_properties_are_a_consumers():
    with pytest.raises(ValueError, match=r"no\.such is no property"):
        GroupCommitListener({"bootstrap.servers": "127.0.0.1:1", "no.such": "1"}, "g")
    listener = GroupCommitListener({"bootstrap.servers": "127.0.0.1:1"}, "g")
    listener.onQueryProgress(_progress(_source({"t": {"0": 9}})))
    assert listener.metrics()[0]["failures"] == 1
    assert ErrorCode.UNKNOWN_MEMBER_ID.name not in str(listener.metrics()[0]["last_error"])


def progress(*latest: str | None, name: str | None = "flights", batch: int = 7) -> Any:
    sources = [SimpleNamespace(latestOffset=each, numInputRows=12) for each in latest]
    return SimpleNamespace(
        name=name, id="an-id", batchId=batch, timestamp="2026-11-23T10:00:00.000Z", durationMs={"triggerExecution": 90}, sources=sources
    )


def test_a_row_for_each_source_that_is_a_member() -> None:
    found = member_progress(progress('{"u": {"0": 5}}', None, "not JSON", "[1]", json.dumps({"t": {"0": 9}, "#group_member": MEMBER})))
    assert found == [MemberProgress("flights", 7, "2026-11-23T10:00:00.000Z", 12, 90, *MEMBER.values())]  # type: ignore[arg-type]
    assert member_progress(progress(json.dumps({"#group_member": MEMBER}), name=None))[0].query == "an-id"
    assert list(MemberProgress._fields) == MEMBER_PROGRESS.fieldNames()


def test_a_listener_keeps_the_newest_rows() -> None:
    listener = GroupMemberListener()
    listener.onQueryStarted(None)
    for batch in range(ROWS_MAX + 3):
        listener.onQueryProgress(SimpleNamespace(progress=progress(json.dumps({"#group_member": MEMBER}), batch=batch)))
    listener.onQueryIdle(None)
    listener.onQueryTerminated(None)
    rows = listener.rows()
    assert (len(rows), rows[0].batch_id, rows[-1].batch_id) == (ROWS_MAX, 3, ROWS_MAX + 2)
