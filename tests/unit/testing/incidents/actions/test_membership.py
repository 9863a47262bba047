"""Members that come and go: the second halves of cooperative rebalances, and members that stay away."""

from collections.abc import Callable

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.membership import join, rolling_restart, unsubscribe
from ottla.testing.incidents.group_run import GroupRun, Plan


def test_clients_have_habits(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("join", assignor="cooperative-sticky", clients=("java", "confluent"), actor=1))
    join(run)
    (label,) = (each for each in run.finish().rebalances if each.is_action)
    assert (label.cause, label.also) == (Cause.JOIN_NEW, (Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS))
    run = new_run(new_plan("join", id="new", protocol="consumer", assignor="", clients=("java", "confluent"), actor=1))
    join(run)
    (label,) = (each for each in run.finish().rebalances if each.is_action)
    assert (label.cause, label.also) == (Cause.JOIN_NEW, ())


def test_each_member_restarts_in_its_turn(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("rolling_restart"))
    rolling_restart(run)
    assert [each.cause for each in run.finish().rebalances if each.is_action] == [Cause.RESTART_DYNAMIC] * 3


def test_one_that_unsubscribes_lives_on(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("unsubscribe"))
    unsubscribe(run)
    assert set(run.members) == {0, 1, 2}
    assert run.members[1].assignment() == set()
