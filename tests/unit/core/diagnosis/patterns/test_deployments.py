from collections.abc import Callable

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.patterns.deployments import PAUSE_MAX_MS, family, find_deployments
from ottla.core.diagnosis.verdicts.verdict import Verdict

New = Callable[..., Verdict]
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
