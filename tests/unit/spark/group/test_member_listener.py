"""The memberships of queries from their progress."""

import json
from types import SimpleNamespace
from typing import Any

from ottla.spark.group.member_listener import ROWS_MAX, GroupMemberListener, MemberProgress, member_progress
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
