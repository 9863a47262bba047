"""TODO"""

from collections.abc import Callable

import pytest

from ottla.history.patterns import PAUSE_MAX_MS, Culprit, family, find_culprit, find_deployments, flapping, sentences
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import AVOIDED, Confidence, SettingAdvice, Verdict

New = Callable[..., Verdict]


def test_the_member_that_caused_most_of_the_last_six(verdict: New) -> None:
    causes = (
        [(Cause.EXPIRE_HEARTBEAT, "w9")] * 5
        + [(Cause.JOIN_NEW, "w2")]
        + [(Cause.EXPIRE_HEARTBEAT, "w2")] * 3
        + [(Cause.POLL_TIMEOUT, "w1")]
    )
    history = [verdict(cause, name, at * 1_000_000) for at, (cause, name) in enumerate(causes)]
    assert find_culprit([*history, verdict(Cause.STATIC_REJOIN, "w3", 0, kind=AVOIDED)]) == Culprit("w2", 3, 6, False)


def test_one_loss_makes_no_culprit(verdict: New) -> None:
    assert find_culprit([verdict(Cause.EXPIRE_HEARTBEAT, "w1", 0), verdict(Cause.JOIN_NEW, None, 1)]) is None


def test_three_losses_within_minutes_are_flapping(verdict: New) -> None:
    assert flapping([verdict(Cause.POLL_TIMEOUT, "w1", at) for at in (0, 60_000, 120_000)]) == {"w1"}
    assert flapping([verdict(Cause.POLL_TIMEOUT, "w1", at) for at in (0, 600_000, 1_200_000)]) == frozenset()


RESTART = Cause.RESTART_DYNAMIC


def test_clients_of_one_kind_that_restart_in_turn_are_one_deployment(verdict: New) -> None:
    restarts = [verdict(RESTART, f"w{number // 2}", number * 2_000) for number in range(6)]
    (found,) = find_deployments([verdict(Cause.EXPIRE_HEARTBEAT, "w9", 0), *restarts])
    assert (found.clients, found.started_ms, found.ended_ms) == (("w0", "w1", "w2"), 0, 10_500)
    assert (len(found.verdicts), found.stopped_partition_seconds) == (6, 12.0)


def test_one_client_and_restarts_of_another_hour_are_none(verdict: New) -> None:
    assert find_deployments([verdict(RESTART, "w1", 0), verdict(RESTART, "w1", 2_000)]) == []
    assert find_deployments([verdict(RESTART, "w1", 0), verdict(RESTART, "w2", PAUSE_MAX_MS + 501)]) == []
    assert find_deployments([verdict(RESTART, "billing-1", 0), verdict(RESTART, "search-1", 1_000)]) == []


@pytest.mark.parametrize(
    "names",
    [("w1", "w22"), ("orders-6d4cf56db6-x7k2p", "orders-7f8b9c6d5f-q9z4d"), ("rdkafka", "rdkafka"), ("web_3", "web_4")],
)
def test_names_of_one_family(names: tuple[str, str]) -> None:
    assert family(names[0]) == family(names[1])


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
        "EXPIRE_HEARTBEAT of w2 (1 to 2): session.timeout.ms = 20000 would have avoided 2 rebalances. Because of 20000.",
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
        "POLL_TIMEOUT of w1, w3 (0 to 2): Work less.",
        "EXPIRE_HEARTBEAT of w2 (1): session.timeout.ms = 9000 would have avoided 1 rebalance. Wait. But: It takes longer.",
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


def test_advice_says_its_sample(verdict: New) -> None:
    advice = (SettingAdvice("session.timeout.ms", "36000", "A restart took 18 s."),)
    restarts = [verdict(Cause.RESTART_DYNAMIC, "w1", at, advice=advice, evidence={"absence_ms": at}) for at in (2_000, 4_000, 18_000)]
    assert sentences(restarts, time_text=str)[1].endswith("A restart took 18 s. 3 absences: 2 to 18 s, half below 4 s.")
