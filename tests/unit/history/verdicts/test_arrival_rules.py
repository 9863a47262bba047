"""Members that came, and static ones that came back."""

from typing import Any

import pytest

from ottla.history.processes import Identity
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.evidence import Cause, Kind, Source
from ottla.history.verdicts.arrival_rules import ARRIVAL_RULES, AVOIDED_RULES, COLD_START_MS, Joining, judge_avoided
from ottla.history.verdicts.verdict import Confidence, findings_of
from tests.support.kit.evidence import EvidenceLog

GONE = Departure(who=Identity("m1"), at_ms=0, clock="c")


def joining(count_before: int | None = 2, since_cold_start_ms: int | None = None, **fields: Any) -> Joining:
    arrival = Arrival(**({"who": Identity("m2"), "at_ms": 0, "clock": "c"} | fields))
    each = Round(group="g", generation=2, parts=[], count_before=count_before, since_cold_start_ms=since_cold_start_ms)
    return Joining(arrival, each)


HOLDS_OF_ARRIVALS = {
    "the first of the group": joining(0),
    "soon after the first": joining(1, COLD_START_MS),
    "joined a group with members": joining(),
    "not seen before": joining(),
    "its predecessor was still there": joining(replaces=True, loss=GONE),
    "another member was lost soon after": joining(may_replace=True),
    "the assignor changed with it": joining(is_protocol_changed=True),
}


def names(subject: Joining) -> list[str]:
    return [finding.name for finding in findings_of(ARRIVAL_RULES, subject)]


def test_every_rule_has_its_example() -> None:
    assert set(HOLDS_OF_ARRIVALS) == {rule.name for rule in ARRIVAL_RULES}


@pytest.mark.parametrize("name", HOLDS_OF_ARRIVALS)
def test_the_rule_of_arrivals_holds_for_its_example(name: str) -> None:
    assert name in names(HOLDS_OF_ARRIVALS[name])


def test_exactly_one_rule_says_when_it_joined() -> None:
    for subject in (joining(0, 0), joining(1, 1_000), joining(None), joining(1, COLD_START_MS + 1)):
        assert len([name for name in names(subject) if name in list(HOLDS_OF_ARRIVALS)[:3]]) == 1


def test_members_that_start_a_group_choose_its_assignor() -> None:
    assert "the assignor changed with it" not in names(joining(1, 500, is_protocol_changed=True))


def avoided(
    *kinds: Kind, had_left: bool = False, trigger: str | None = None, is_owner_silent: bool | None = None, **evidence: Any
) -> Round:
    log = EvidenceLog()
    context = [log.add(Kind.MEMBER_LEFT, instance_id="i")] if had_left else []
    log.lines = []
    for kind in kinds:
        log.add(kind, 10, generation=3, member_id="m2", instance_id="i", trigger=trigger, evidence=evidence)
    part = Part(clock="c", source=Source.BROKER_LOG, stage=Stage.ENDED, is_avoided=True, items=log.lines, context=context)
    return Round(group="g", generation=3, parts=[part], is_avoided=True, is_owner_silent=is_owner_silent)


HOLDS = {
    "an instance id came back": avoided(Kind.STATIC_REPLACED),
    "an instance id is in use": avoided(Kind.STATIC_FENCED),
    "the instance id went back and forth": avoided(*[Kind.STATIC_REPLACED] * 3),
    "an instance id is not released": avoided(Kind.JOIN_REFUSED),
    "shares no assignor": avoided(Kind.JOIN_REFUSED, trigger="FAILED_JOIN"),
    "the owner of its instance id was dead": avoided(Kind.JOIN_REFUSED, is_owner_silent=True),
    "the owner of its instance id lived": avoided(Kind.JOIN_REFUSED, is_owner_silent=False),
    "its predecessor was alive": avoided(Kind.STATIC_REPLACED, last_heartbeat_age_ms=200),
    "it had left for now": avoided(Kind.STATIC_REPLACED, had_left=True),
}


@pytest.mark.parametrize("name", HOLDS)
def test_the_rule_holds_for_its_example(name: str) -> None:
    assert set(HOLDS) == {rule.name for rule in AVOIDED_RULES}
    assert name in [finding.name for finding in findings_of(AVOIDED_RULES, HOLDS[name])]


@pytest.mark.parametrize(
    ("each", "cause", "confidence"),
    [
        (avoided(Kind.STATIC_REPLACED), Cause.STATIC_REJOIN, Confidence.MEDIUM),
        (avoided(Kind.STATIC_REPLACED, had_left=True), Cause.STATIC_REJOIN, Confidence.HIGH),
        (avoided(Kind.STATIC_FENCED), Cause.STATIC_FENCED, Confidence.HIGH),
        (avoided(Kind.STATIC_REPLACED, Kind.STATIC_FENCED), Cause.STATIC_FENCED, Confidence.HIGH),
        (avoided(*[Kind.STATIC_REPLACED] * 3), Cause.STATIC_FENCED, Confidence.HIGH),
        (avoided(Kind.JOIN_REFUSED, is_owner_silent=False), Cause.STATIC_FENCED, Confidence.HIGH),
        (avoided(Kind.JOIN_REFUSED, is_owner_silent=True), Cause.FAILED_JOIN, Confidence.MEDIUM),
        (avoided(Kind.JOIN_REFUSED, trigger="FAILED_JOIN"), Cause.FAILED_JOIN, Confidence.HIGH),
    ],
)
def test_a_restart_or_a_second_process(each: Round, cause: Cause, confidence: Confidence) -> None:
    assert (judge_avoided(each).cause, judge_avoided(each).confidence) == (cause, confidence)
