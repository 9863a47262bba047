"""Incidents of a whole broker: all their groups are labelled."""

from collections.abc import Callable

from ottla.broker import Broker
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.group_run import GroupRun, Plan
from ottla.testing.incidents.waves import fail_to_store, restart_broker, start_groups, wait_until_loaded


def test_the_last_member_joins_while_the_assignment_cannot_be_stored(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    run = new_run(new_plan("store_error", cause=Cause.STORE_ERROR))
    start_groups([run])
    assert set(run.members) == {0, 1}
    fail_to_store([run])
    assert set(run.members) == {0, 1, 2}
    (label,) = (each for each in run.finish().rebalances if each.is_action)
    assert (label.cause, label.also) == (Cause.STORE_ERROR, (Cause.JOIN_NEW, Cause.LEADER_REJOIN_SPURIOUS, Cause.LEAVE_CLOSE))
    done = [each for each in run.world.done if each.startswith("__consumer_offsets")]  # type: ignore[attr-defined]
    assert len(done) == 2
    assert done[-1].endswith("=1048588")


def test_groups_that_do_not_become_stable_are_left_out(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    good, bad = new_run(new_plan("broker_restart", id="good")), new_run(new_plan("broker_restart", id="bad"))
    bad.topics["missing"] = 0
    bad.world.members = [type("Greedy", (), {"is_active": True, "back_at": 0.0})()]  # type: ignore[attr-defined]
    assert start_groups([good, bad]) == [good]


def test_a_restart_is_certain_to_shrink_the_groups_that_are_too_large(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    large = new_run(new_plan("broker_restart", cause=Cause.CAPACITY))
    small = new_run(new_plan("broker_restart", id="s2", cause=Cause.COORDINATOR_MOVE, clients=("java",), actor=0))
    for run in (large, small):
        start_groups([run])
        run.world.members.clear()  # type: ignore[attr-defined]
    restarts: list[str] = []
    restart_broker([large, small], lambda: restarts.append("now"))
    assert restarts == ["now"]
    labels = [[each for each in run.finish().rebalances if each.is_action] for run in (large, small)]
    assert [(each.cause, each.is_certain) for (each,) in labels] == [(Cause.CAPACITY, True), (Cause.COORDINATOR_MOVE, False)]


def test_a_coordinator_that_has_loaded_is_not_waited_for() -> None:
    with Broker() as broker:
        wait_until_loaded(broker.bootstrap_servers, "g")
