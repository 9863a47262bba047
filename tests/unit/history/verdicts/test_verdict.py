"""Verdicts as JSON, rules that are combined, and what follows from a cause alone."""

import json

from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause, Source
from ottla.history.verdicts.policy import LOSSES, POLICIES
from ottla.history.verdicts.verdict import REBALANCE, Confidence, Finding, Rule, SettingAdvice, Verdict, findings_of, narrow

LOG, TOPIC = Source.BROKER_LOG, Source.OFFSETS_TOPIC


def test_a_verdict_is_json_with_the_documented_keys() -> None:
    verdict = Verdict(
        group="g",
        generation=4,
        started_ms=1,
        ended_ms=None,
        kind=REBALANCE,
        cause=Cause.ADMIN,
        candidates=(Cause.ADMIN,),
        confidence=Confidence.HIGH,
        planned=True,
        avoidable=False,
        who=Identity("m", None, "c", "/h"),
        advice=(SettingAdvice("group.instance.id", None, "Because."),),
    )
    fields = json.loads(json.dumps(verdict.to_dict()))
    assert {"group", "generation", "started_ms", "ended_ms", "kind", "cause", "candidates", "confidence", "planned", "avoidable"} <= set(
        fields
    )
    assert {"members_before", "members_after", "evidence", "advice", "sources", "class", "cost", "who", "sharper"} <= set(fields)
    assert (fields["cause"], fields["confidence"], fields["who"]["client_id"]) == ("ADMIN", "high", "c")
    assert fields["advice"] == [{"setting": "group.instance.id", "value": None, "sentence": "Because.", "warning": None}]


def finding(source: Source, confidence: Confidence = Confidence.HIGH, **weights: float) -> Finding:
    return Finding("r", source, {Cause(name): weight for name, weight in weights.items()}, confidence)


def test_rules_narrow_the_causes_to_those_that_all_allow() -> None:
    narrowed = narrow([finding(LOG, LEAVE_CLOSE=1, POLL_TIMEOUT=1), finding(TOPIC, POLL_TIMEOUT=1, EXPIRE_HEARTBEAT=1)])
    assert (narrowed.cause, narrowed.candidates, narrowed.confidence) == (Cause.POLL_TIMEOUT, (Cause.POLL_TIMEOUT,), Confidence.HIGH)
    assert not narrowed.has_conflict


def test_the_order_of_findings_does_not_matter() -> None:
    found = [finding(LOG, LEAVE_CLOSE=3, POLL_TIMEOUT=1), finding(TOPIC, POLL_TIMEOUT=2, LEAVE_CLOSE=1)]
    assert narrow(found).shares == narrow(found[::-1]).shares


def test_where_sources_disagree_the_more_informative_decides_and_the_confidence_drops() -> None:
    narrowed = narrow([finding(TOPIC, EXPIRE_HEARTBEAT=1), finding(LOG, LEAVE_CLOSE=1)])
    assert (narrowed.cause, narrowed.confidence, narrowed.has_conflict) == (Cause.LEAVE_CLOSE, Confidence.MEDIUM, True)


def test_the_confidence_is_that_of_the_shares_and_at_most_that_of_the_rules() -> None:
    assert narrow([finding(LOG, LEAVE_CLOSE=3, POLL_TIMEOUT=1)]).confidence is Confidence.MEDIUM
    assert narrow([finding(LOG, LEAVE_CLOSE=1, POLL_TIMEOUT=1, ADMIN=1)]).confidence is Confidence.LOW
    assert narrow([finding(LOG, Confidence.LOW, LEAVE_CLOSE=1)]).confidence is Confidence.LOW


def test_nothing_said_is_unknown() -> None:
    assert (narrow([]).cause, narrow([]).candidates, narrow([]).confidence) == (Cause.UNKNOWN, (Cause.UNKNOWN,), Confidence.LOW)


def test_only_rules_that_hold_say_something() -> None:
    rules: list[Rule[int]] = [
        Rule(name=name, source=LOG, condition="", weights={Cause.ADMIN: 1}, confidence=Confidence.LOW, holds=holds)
        for name, holds in (("odd", lambda number: number % 2 == 1), ("even", lambda number: number % 2 == 0))
    ]
    assert [found.name for found in findings_of(rules, 3)] == ["odd"]


def test_every_cause_has_a_policy() -> None:
    assert set(POLICIES) == set(Cause)


def test_the_two_classes_of_unnecessary_rebalances() -> None:
    assert {cause: policy.rebalance_class for cause, policy in POLICIES.items() if policy.rebalance_class} == {
        Cause.EXPIRE_HEARTBEAT: 1,
        Cause.POLL_TIMEOUT: 2,
    }


def test_no_lost_member_was_planned() -> None:
    assert all(POLICIES[cause].planned is False for cause in LOSSES)
