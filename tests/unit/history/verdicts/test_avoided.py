from typing import Any

import pytest

from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Kind, Source
from ottla.history.verdicts.avoided import AVOIDED_RULES, judge_avoided
from ottla.history.verdicts.rule import Confidence, findings_of
from tests.support.kit.evidence import EvidenceLog


def avoided(*kinds: Kind, had_left: bool = False, **evidence: Any) -> Round:
    log = EvidenceLog()
    context = [log.add(Kind.MEMBER_LEFT, instance_id="i")] if had_left else []
    log.lines = []
    for kind in kinds:
        log.add(kind, 10, generation=3, member_id="m2", instance_id="i", evidence=evidence)
    part = Part(clock="c", source=Source.BROKER_LOG, stage=Stage.ENDED, is_avoided=True, items=log.lines, context=context)
    return Round(group="g", generation=3, parts=[part], is_avoided=True)


HOLDS = {
    "an instance id came back": avoided(Kind.STATIC_REPLACED),
    "an instance id is in use": avoided(Kind.STATIC_FENCED),
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
    ],
)
def test_a_restart_or_a_second_process(each: Round, cause: Cause, confidence: Confidence) -> None:
    assert (judge_avoided(each).cause, judge_avoided(each).confidence) == (cause, confidence)
