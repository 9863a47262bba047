"""TODO"""

from typing import Any

from ottla.history.rounds.identity import Identity
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.story.arrays import AssignmentChange, owner_arrays
from ottla.history.story.rebalances import Phases, StoryRebalance, judged_rebalances, rebalance_columns, stored_assignments
from ottla.history.verdicts.rule import Confidence
from ottla.history.verdicts.verdict import Cost, Verdict


def rebalance(*evidence: Evidence, **fields: Any) -> StoryRebalance:
    given = {
        "generation": 2,
        "started_ms": 1_000,
        "ended_ms": 1_500,
        "kind": "rebalance",
        "cause": Cause.EXPIRE_HEARTBEAT,
        "candidates": (Cause.EXPIRE_HEARTBEAT,),
        "confidence": Confidence.MEDIUM,
        "planned": False,
        "avoidable": True,
    }
    [found] = judged_rebalances([Verdict(group="g", **(given | fields))], Phases(evidence))
    return found


def said(kind: Kind, at_ms: int, **fields: Any) -> Evidence:
    return Evidence(at_ms=at_ms, source=Source.BROKER_LOG, clock="b", kind=kind, group="g", **({"generation": 2} | fields))


def test_the_phases_come_from_the_line_that_formed_the_generation() -> None:
    formed = [said(Kind.JOIN_COMPLETED, 400), said(Kind.JOIN_COMPLETED, 1_400, protocol="range")]
    found = rebalance(*formed)
    assert (found.join_ms, found.sync_ms, found.is_eager) == (400, 100, True)


def test_without_that_line_a_join_takes_all_the_time_but_what_the_sync_is_known_to_take() -> None:
    assert (rebalance().join_ms, rebalance().sync_ms, rebalance().is_eager) == (500, 0, None)
    found = rebalance(evidence={"sync_ms": 20})
    assert (found.join_ms, found.sync_ms) == (480, 20)


def test_a_rebalance_without_an_end_has_no_sync() -> None:
    assert (rebalance(ended_ms=None).join_ms, rebalance(ended_ms=None).sync_ms) == (None, None)
    assert rebalance(said(Kind.JOIN_COMPLETED, 1_000), ended_ms=None).join_ms == 0


def test_cooperative_and_kip_848_groups_are_not_eager() -> None:
    assert rebalance(said(Kind.SYNC_COMPLETED, 1_500, protocol="cooperative-sticky")).is_eager is False
    assert rebalance(said(Kind.SYNC_COMPLETED, 1_500, group_type="consumer", protocol="uniform")).is_eager is False


def test_silence_belongs_before_the_rebalance_that_removes_the_member_only() -> None:
    silent = {"silent_ms": 6_000}
    assert rebalance(evidence=silent, members_before=2, members_after=1).silent_ms == 6_000
    assert rebalance(evidence=silent, members_before=1, members_after=2).silent_ms is None
    assert rebalance(evidence=silent, cause=Cause.POLL_TIMEOUT, members_before=2, members_after=1).silent_ms is None


def test_verdict_and_cost_are_taken_over() -> None:
    found = rebalance(
        kind="avoided", cause=Cause.STATIC_REJOIN, who=Identity("m", "i", "c", "/h"), cost=Cost(12, 6.0, 3, 40), generations=(2, 3)
    )
    assert (found.is_avoided, found.cause, found.confidence, found.generations) == (True, "STATIC_REJOIN", "medium", (2, 3))
    assert (found.stopped, found.stopped_seconds, found.moved, found.messages_in) == (12, 6.0, 3, 40)
    assert found.member is not None
    assert found.member.label == "i"


def test_a_rebalance_stored_the_first_assignment_of_its_generation_after_it_began() -> None:
    arrays = owner_arrays([AssignmentChange(at_ms, generation, []) for at_ms, generation in [(10, 1), (20, 2), (90, 1)]], rows=1)
    rebalances = [
        StoryRebalance(started_ms=5, generation=1),
        StoryRebalance(started_ms=80, generation=1),  # the group was deleted in between: it counts from one again
        StoryRebalance(started_ms=95, generation=1),
        StoryRebalance(started_ms=15, generation=2, is_avoided=True),
        StoryRebalance(started_ms=15),
    ]
    assert stored_assignments(rebalances, arrays) == [[0], [2], [], [], []]


def test_a_cooperative_rebalance_stored_one_for_each_of_its_generations() -> None:
    arrays = owner_arrays([AssignmentChange(at_ms, generation, []) for at_ms, generation in [(10, 1), (20, 2), (30, 3)]], rows=1)
    assert stored_assignments([StoryRebalance(started_ms=15, generation=2, generations=(2, 3))], arrays) == [[1, 2]]


def test_all_columns_have_a_value_for_each_rebalance() -> None:
    rebalances = [
        StoryRebalance(started_ms=1),
        StoryRebalance(started_ms=2, member=Identity(None, "i", None, None), candidates=("A", "B")),
    ]
    columns = rebalance_columns(rebalances, [None, 3], owner_arrays([], rows=0))
    assert {len(values) for values in columns.values()} == {2}
    assert (columns["row"], columns["member_name"], columns["candidates"]) == ([None, 3], [None, "i"], [[], ["A", "B"]])


def test_the_glyph_shows_the_verdict_without_a_colour() -> None:
    glyphs = [StoryRebalance(started_ms=0, planned=planned).glyph for planned in (True, False, None)]
    assert glyphs == ["▲", "▼", "?"]
    assert StoryRebalance(started_ms=0, planned=None, is_avoided=True).glyph == "◇"


def test_it_ends_when_the_assignment_was_stored_and_costs_partition_seconds() -> None:
    rebalance = StoryRebalance(started_ms=1_000, join_ms=300, sync_ms=20, stopped=12, stopped_ms=500)
    assert (rebalance.ended_ms, rebalance.stopped_seconds) == (1_320, 6.0)
    assert (StoryRebalance(started_ms=7).ended_ms, StoryRebalance(started_ms=7).stopped_seconds) == (7, 0.0)


def test_a_member_is_called_by_what_people_gave_it() -> None:
    assert Identity("m-1", "instance", "client", None).label == "instance"
    assert Identity("m-1", None, "client", None).label == "client"
    assert Identity(None, None, None, None).label == "a member"
