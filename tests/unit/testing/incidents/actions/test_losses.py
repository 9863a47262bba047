"""Members that are lost: each in a process of its own where it freezes or dies, and labelled until it is back."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.losses import kill_and_restart, slow_poll, slow_revocation
from ottla.testing.incidents.actions.table import ACTIONS, OWN_JVM
from ottla.testing.incidents.group_run import GroupRun, NotStable, Plan


def test_what_freezes_or_dies_lives_alone(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    for action in OWN_JVM:
        alone: list[bool] = []
        run = new_run(new_plan(action))
        start = run.start

        def note(position: int, *, is_alone: bool = False, start: Callable[..., Any] = start, alone: list[bool] = alone) -> Any:
            if position == 1:
                alone.append(is_alone)
            return start(position, is_alone=is_alone)

        run.start = note  # type: ignore[method-assign]
        ACTIONS[action](run)
        assert all(alone)


@pytest.mark.parametrize("seed", range(5))
def test_one_that_is_too_slow_comes_back(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun], seed: int) -> None:
    run = new_run(new_plan("slow_poll", seed=seed))
    slow_poll(run)
    assert run.defaults.get("session_ms", 0) <= run.defaults["max_poll_ms"]
    assert [each.cause for each in run.finish().rebalances if each.is_action] == [Cause.POLL_TIMEOUT] * 2


def test_on_the_new_protocol_the_join_is_a_rebalance_of_its_own(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("slow_revocation", protocol="consumer", assignor="", clients=("java", "java"), actor=0))
    slow_revocation(run)
    causes = [each.cause for each in run.finish().rebalances]
    assert causes[-3:] == [Cause.JOIN_NEW, Cause.JOIN_TIMEOUT, Cause.JOIN_TIMEOUT]


def test_one_that_is_started_again_too_late_is_not_used(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("kill_and_restart"))
    run.world.start_seconds = 10.0  # type: ignore[attr-defined]
    with pytest.raises(NotStable, match="too late"):
        kill_and_restart(run)
