"""Static members keep their instance ids when they restart."""

from collections.abc import Callable

from ottla.testing.incidents.actions.static_members import change_assignor_static, static_fenced, static_rejoin
from ottla.testing.incidents.group_run import GroupRun, Plan


def instance_ids(run: GroupRun) -> list[str]:
    return [each.settings.instance_id for each in run.world.members]  # type: ignore[attr-defined]


def test_a_restart_and_a_second_process_use_the_same_instance_id(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    for action in (static_rejoin, static_fenced, change_assignor_static):
        run = new_run(new_plan(action.__name__))
        action(run)
        ids = instance_ids(run)
        assert len(ids) == 4
        assert ids[3] == ids[1]
        assert len(set(ids)) == 3


def test_an_avoided_rebalance_is_labelled_as_such(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("static_rejoin"))
    static_rejoin(run)
    assert [each.kind for each in run.finish().rebalances if each.is_action] == ["avoided"]
