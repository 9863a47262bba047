from typing import Any

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.model import Evidence, Kind, Source
from ottla.core.diagnosis.rounds.identity import Identity
from ottla.core.diagnosis.story.judged import Phases, judged_rebalances
from ottla.core.diagnosis.story.rebalance import StoryRebalance
from ottla.core.diagnosis.verdicts.rule import Confidence
from ottla.core.diagnosis.verdicts.verdict import Cost, Verdict


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
    assert found.member.text == "i"
