from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Source
from ottla.history.verdicts.rule import Confidence, Finding, Rule, findings_of, narrow

LOG, TOPIC = Source.BROKER_LOG, Source.OFFSETS_TOPIC


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
    assert narrow([finding(LOG, LEAVE_CLOSE=3, POLL_TIMEOUT=2)]).confidence is Confidence.MEDIUM
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
