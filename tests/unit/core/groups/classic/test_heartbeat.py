"""Heartbeats: which restart the session, and what they are answered."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(("state", "generation"), [("PreparingRebalance", 1), ("CompletingRebalance", 2), ("Stable", 2)])
def test_an_accepted_heartbeat_restarts_the_session(driver: Any, state: str, generation: int) -> None:
    driver.in_state(state)
    driver.wait(4_000)
    driver.given(f"heartbeat g m1 gen={generation}")
    assert driver.group().members["m1"].session.at_ms == 14_000


def test_a_heartbeat_of_another_generation_does_not(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(4_000)
    assert driver.error("heartbeat g m1 gen=1") is E.ILLEGAL_GENERATION
    assert driver.group().members["m1"].session.at_ms == 10_000


def test_a_heartbeat_is_answered_that_a_rebalance_is_in_progress(driver: Any) -> None:
    assert driver.in_state("PreparingRebalance").error("heartbeat g m1 gen=1") is E.REBALANCE_IN_PROGRESS
