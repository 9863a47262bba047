"""Rebalances of a story, in words and columns."""

from typing import Any

import pytest

from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.story.arrays import AssignmentChange, owner_arrays
from ottla.history.story.rebalances import Phases, StoryRebalance, judged_rebalances, rebalance_columns, stored_assignments
from ottla.history.story.sentences import advice_text, counted, duration, evidence_texts, sentence_of
from ottla.history.verdicts.verdict import Confidence, Cost, SettingAdvice, Verdict


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


def verdict(cause: Cause, **fields: Any) -> Verdict:
    given = {
        "generation": 2,
        "started_ms": 1,
        "ended_ms": 5,
        "kind": "rebalance",
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": False,
        "avoidable": True,
        "who": Identity(client_id="w1"),
    }
    return Verdict(group="g", cause=cause, **(given | fields))


def test_a_lost_member_has_its_figures_in_the_sentence() -> None:
    lost = verdict(Cause.EXPIRE_HEARTBEAT, evidence={"silent_ms": 6_100, "session_timeout_ms": 6_000}, members_before=3, members_after=2)
    assert sentence_of(lost) == "w1 sent no heartbeat for 6.1 s (its session is 6.0 s) and was removed."


def test_names_of_members_are_kept_and_unknown_figures_are_left_out() -> None:
    assert sentence_of(verdict(Cause.EXPIRE_HEARTBEAT)) == "w1 sent no heartbeat and was removed."


def test_a_member_that_comes_back_has_another_sentence() -> None:
    back = verdict(Cause.POLL_TIMEOUT, evidence={"absence_ms": 2_000}, members_before=2, members_after=3)
    assert sentence_of(back) == "w1 came back after 2.0 s: it had left because it did not poll within max.poll.interval.ms."


def test_doubt_is_said() -> None:
    assert sentence_of(verdict(Cause.LEAVE_CLOSE, confidence=Confidence.MEDIUM)) == "Probably: w1 closed, and left the group."
    assert sentence_of(verdict(Cause.UNKNOWN, confidence=Confidence.LOW)) == "The evidence does not say why."
    assert sentence_of(verdict(Cause.JOIN_NEW, who=None, contributing=(Cause.LEAVE_CLOSE,))) == (
        "A member joined the group; meanwhile also LEAVE_CLOSE."
    )


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("members", [(2, 1), (1, 2), (None, None)])
def test_every_cause_has_a_sentence(cause: Cause, members: tuple[int | None, int | None]) -> None:
    text = sentence_of(verdict(cause, members_before=members[0], members_after=members[1], evidence={"silent_ms": 5}))
    assert text.endswith(".")
    assert not set("{}|") & set(text)


def test_a_hostile_name_stays_what_it_is() -> None:
    named = verdict(Cause.JOIN_NEW, who=Identity(client_id="{who|silent_ms}</script>"))
    assert sentence_of(named) == "{who|silent_ms}</script> joined the group."


def test_evidence_is_figures_rules_and_sources() -> None:
    texts = evidence_texts(
        verdict(
            Cause.JOIN_NEW,
            evidence={"silent_ms": 6_100, "group_size": 1_200},
            rules=("not seen before",),
            sources=("broker-log",),
            cost=Cost(reread_messages=1),
        )
    )
    assert texts == (
        "silent for 6.1 s",
        "group size 1,200",
        "1 message were committed again from an earlier offset",
        "rule: not seen before",
        "sources: broker-log",
    )


def test_advice_warns_of_itself() -> None:
    assert advice_text(SettingAdvice("a.ms", "9", "Because.", "it costs.")) == "Set a.ms to 9. Because. But: it costs."
    assert advice_text(SettingAdvice("a.ms", None, "Nothing helps.")) == "Nothing helps."


def test_nouns_agree_with_their_numbers() -> None:
    assert (counted(1, "member"), counted(0, "member"), counted(1_200, "member")) == ("1 member", "0 members", "1,200 members")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (6_100, "6.1 s"),
        (60_000, "1 min"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_durations_have_the_unit_that_fits(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
