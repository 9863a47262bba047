from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Kind, Source
from ottla.history.verdicts.rule import Confidence, narrow
from ottla.history.verdicts.stated_causes import stated_findings
from tests.support.kit.evidence import EvidenceLog


def test_a_code_is_nearly_certain_and_candidates_stay_open() -> None:
    log = EvidenceLog(Source.CLIENT_LOG)
    code = log.add(Kind.CLIENT_LOST, trigger="POLL_TIMEOUT")
    candidates = log.add(Kind.CLIENT_LOST, candidates=("EXPIRE_HEARTBEAT", "JOIN_TIMEOUT"))
    assert narrow(stated_findings([code], of_departure=True)).cause is Cause.POLL_TIMEOUT
    assert set(narrow(stated_findings([candidates], of_departure=True)).candidates) >= {Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT}


def test_a_client_that_says_that_it_was_too_slow_was_not_stopped() -> None:
    (finding,) = stated_findings([EvidenceLog(Source.CLIENT_LOG).add(Kind.CLIENT_LOST, trigger="POLL_TIMEOUT")], of_departure=True)
    assert Cause.RESTART_DYNAMIC not in finding.weights


def test_a_client_that_closes_does_not_say_that_it_will_be_started_again() -> None:
    (finding,) = stated_findings([EvidenceLog().add(Kind.MEMBER_LEFT, trigger="LEAVE_CLOSE")], of_departure=True)
    assert finding.weights[Cause.LEAVE_CLOSE] == finding.weights[Cause.RESTART_DYNAMIC]


def test_the_same_words_count_once_and_unknown_ones_not_at_all() -> None:
    log = EvidenceLog()
    items = [
        log.add(Kind.TRIGGER, trigger="ADMIN_REMOVE"),
        log.add(Kind.TRIGGER, trigger="ADMIN_REMOVE"),
        log.add(Kind.TRIGGER, trigger="x"),
    ]
    (finding,) = stated_findings([*items, log.add(Kind.TRIGGER, candidates=("y",)), log.add(Kind.TRIGGER)], of_departure=False)
    assert (finding.weights[Cause.ADMIN], finding.confidence) == (1.0, Confidence.HIGH)
