"""The pipeline's inputs and outputs, and rows to events; its rows are compared with the reference in tests/spark."""

from dataclasses import asdict

from ottla.groups.events import EventMember, GroupEvent
from ottla.spark.pipelines.rebalances import PIPELINE, event_of_row
from ottla.spark.schemas import GROUP_EVENTS, KAFKA, REBALANCES


def test_from_records_to_one_table():
    assert dict(PIPELINE.inputs) == {"group_event_records": KAFKA}
    assert dict(PIPELINE.outputs) == {"rebalances": REBALANCES}
    assert [step.output for step in PIPELINE.steps][-1] == "rebalances"


def test_a_row_becomes_the_event_that_it_came_from():
    member = EventMember(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=300_000,
        assignment={"t": [0, 1]},
    )
    event = GroupEvent(
        at_ms=5, group="g", kind="trigger", generation=1, state_from="Stable", state_to="", members=(member,), evidence={"age_ms": 3}
    )
    row = asdict(event) | {"partition": 0, "offset": 9, "evidence": [("age_ms", 3)]}
    assert set(row) == set(GROUP_EVENTS.fieldNames())
    row["members"] = [asdict(member) | {"assignment": [("t", [0, 1])]}]
    assert event_of_row(row) == event
    assert event_of_row(row | {"members": None, "evidence": None}).members == ()
