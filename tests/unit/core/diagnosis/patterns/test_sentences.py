from collections.abc import Callable

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.patterns.sentences import sentences
from ottla.core.diagnosis.verdicts.rule import Confidence
from ottla.core.diagnosis.verdicts.verdict import AVOIDED, SettingAdvice, Verdict

New = Callable[..., Verdict]


def test_what_happened_who_caused_it_and_what_would_have_helped(verdict: New) -> None:
    advice = [(SettingAdvice("session.timeout.ms", value, f"Because of {value}."),) for value in ("15000", "20000")]
    found = sentences(
        [
            verdict(Cause.COLD_START, "w1", 0),
            verdict(Cause.EXPIRE_HEARTBEAT, "w2", 1, advice=advice[1]),
            verdict(Cause.EXPIRE_HEARTBEAT, "w2", 2, advice=advice[0]),
            verdict(Cause.STATIC_REJOIN, "w3", 3, kind=AVOIDED),
        ],
        time_text=str,
    )
    assert found == [
        "3 rebalances, 2 not planned (2 EXPIRE_HEARTBEAT); w2 caused 2 of the last 3; static membership avoided 1.",
        "EXPIRE_HEARTBEAT of w2: session.timeout.ms = 20000 would have avoided 2 rebalances. Because of 20000.",
    ]


def test_each_cause_has_its_own_advice(verdict: New) -> None:
    found = sentences(
        [
            verdict(Cause.POLL_TIMEOUT, "w1", 0, advice=(SettingAdvice("max.poll.interval.ms", None, "Work less."),)),
            verdict(Cause.EXPIRE_HEARTBEAT, "w2", 1, advice=(SettingAdvice("session.timeout.ms", "9000", "Wait.", "It takes longer."),)),
            verdict(Cause.POLL_TIMEOUT, "w3", 2, advice=(SettingAdvice("max.poll.interval.ms", None, "Work less."),)),
        ],
        time_text=str,
    )
    assert found[1:] == [
        "POLL_TIMEOUT of w1, w3: Work less.",
        "EXPIRE_HEARTBEAT of w2: session.timeout.ms = 9000 would have avoided 1 rebalance. Wait. But: It takes longer.",
    ]


def test_a_deployment_is_named_with_its_cost(verdict: New) -> None:
    restarts = [verdict(Cause.RESTART_DYNAMIC, name, at) for at, name in enumerate(("w1", "w1", "w2", "w2"))]
    assert sentences(restarts, time_text=lambda at_ms: f"{at_ms} ms")[1] == (
        "A rolling deployment of 2 clients (w1, w2) from 0 ms to 503 ms cost 4 rebalances and 8.0 partition-seconds of standstill."
    )


def test_what_is_not_sure_is_said(verdict: New) -> None:
    unsure = verdict(Cause.LEAVE_CLOSE, "w1", 0, confidence=Confidence.MEDIUM, sharper="Give the log.")
    assert sentences([unsure], time_text=str)[-1] == "1 verdict is not sure. Give the log."
    assert sentences([], time_text=str) == []
