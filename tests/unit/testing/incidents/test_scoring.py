"""Verdicts beside labels: right, wrong, missed, and what the broker's log can tell."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.verdicts.rule import Confidence
from ottla.core.diagnosis.verdicts.verdict import Verdict
from ottla.testing.incidents.labels import Incident
from ottla.testing.incidents.scoring import MISSED, confusion, figures, is_said_by_broker_log, score, unexplained


def verdict(cause: Cause, at_ms: int, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "group": "g",
        "generation": 1,
        "started_ms": at_ms,
        "ended_ms": at_ms + 10,
        "kind": "rebalance",
        "cause": cause,
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": True,
        "avoidable": False,
    }
    return Verdict(**(fields | changes))


@pytest.fixture
def labelled(incident: Incident) -> Incident:
    """JOIN_NEW between 1000 and 2000; a second half is right as well."""
    return replace(incident, end_ms=9_000, rebalances=(replace(incident.rebalances[0], from_ms=1_000, to_ms=2_000),))


def test_the_labels_own_cause_must_be_found(labelled: Incident) -> None:
    (right,) = score(labelled, [verdict(Cause.JOIN_NEW, 1_500)])
    assert (right.is_right, right.holds, right.is_high, right.is_policy_right) == (True, True, True, True)
    both = score(labelled, [verdict(Cause.JOIN_NEW, 1_100), verdict(Cause.COOP_FOLLOWUP, 1_500), verdict(Cause.ADMIN, 1_900)])
    assert [each.is_right for each in both] == [True, True, False]
    alone = score(labelled, [verdict(Cause.COOP_FOLLOWUP, 1_500), verdict(Cause.COOP_FOLLOWUP, 1_600)])
    assert [(each.is_right, each.holds) for each in alone] == [(False, False)], "once, however many there are"


def test_candidates_hold_the_truth_or_not(labelled: Incident) -> None:
    (held,) = score(labelled, [verdict(Cause.ADMIN, 1_500, candidates=(Cause.ADMIN, Cause.JOIN_NEW), confidence=Confidence.LOW)])
    assert (held.is_right, held.holds, held.is_high) == (False, True, False)


def test_a_labelled_rebalance_without_a_verdict_is_missed_if_it_is_certain(labelled: Incident) -> None:
    (missed,) = score(labelled, [verdict(Cause.JOIN_NEW, 3_000)])
    assert (missed.found, missed.is_right, missed.holds) == (MISSED, False, False)
    uncertain = replace(labelled, rebalances=(replace(labelled.rebalances[0], is_certain=False),))
    assert score(uncertain, []) == []


def test_a_verdict_belongs_to_the_label_in_which_it_begins_or_ends(labelled: Incident) -> None:
    assert score(labelled, [verdict(Cause.JOIN_NEW, 700, ended_ms=1_200)])[0].is_right
    assert score(labelled, [verdict(Cause.JOIN_NEW, 950, ended_ms=None)])[0].is_right, "clocks differ a little"
    assert score(labelled, [verdict(Cause.JOIN_NEW, 700, ended_ms=None)])[0].found == MISSED


def test_verdicts_outside_of_labels_are_counted_until_the_end(labelled: Incident) -> None:
    verdicts = [verdict(Cause.JOIN_NEW, at_ms) for at_ms in (100, 1_500, 5_000, 9_500)]
    assert unexplained(labelled, verdicts) == 2


def test_figures_and_the_matrix_of_what_was_found(labelled: Incident) -> None:
    low = verdict(Cause.LEAVE_CLOSE, 1_500, confidence=Confidence.LOW, planned=False)
    scored = [*score(labelled, [verdict(Cause.JOIN_NEW, 1_500)]), *score(labelled, [low]), *score(labelled, [])]
    found = figures(scored)
    assert (found.count, found.high, found.missed) == (3, 1, 1)
    assert (found.right, found.high_right, found.planned_right) == (1 / 3, 1.0, 0.5)
    assert confusion(scored) == {"JOIN_NEW": {"JOIN_NEW": 1, "LEAVE_CLOSE": 1, MISSED: 1}}
    assert figures([]).right is None


@pytest.mark.parametrize(
    ("cause", "changes", "can_tell"),
    [
        (Cause.LEAVE_CLOSE, {}, True),
        (Cause.LEAVE_CLOSE, {"actor": 1}, False),
        (Cause.LEAVE_CLOSE, {"protocol": "consumer"}, False),
        (Cause.TOPIC_CHANGE, {}, False),
        (Cause.TOPIC_CHANGE, {"clients": ("java", "java")}, True),
        (Cause.JOIN_NEW, {"actor": 1}, True),
        (Cause.STATIC_FENCED, {}, False),
        (Cause.STATIC_FENCED, {"protocol": "consumer"}, True),
        (Cause.COORDINATOR_MOVE, {}, False),
    ],
)
def test_what_the_log_of_the_broker_can_tell(labelled: Incident, cause: Cause, changes: dict[str, Any], can_tell: bool) -> None:
    label = replace(labelled.rebalances[0], cause=cause)
    assert is_said_by_broker_log(replace(labelled, rebalances=(label,), **changes), label) is can_tell


def test_the_return_of_a_frozen_process_is_not_told(labelled: Incident) -> None:
    removal = replace(labelled.rebalances[0], cause=Cause.EXPIRE_HEARTBEAT)
    comeback = replace(removal, from_ms=3_000, to_ms=4_000)
    incident = replace(labelled, rebalances=(removal, comeback))
    assert is_said_by_broker_log(incident, removal)
    assert not is_said_by_broker_log(incident, comeback)
