"""The beginning of an incident is labelled: all at once, or one by one."""

from collections.abc import Callable

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.set_up import everyone, set_up
from ottla.testing.incidents.group_run import GroupRun, Plan


@pytest.mark.parametrize(
    ("one_by_one", "causes"), [(False, [Cause.COLD_START]), (True, [Cause.COLD_START, Cause.JOIN_NEW, Cause.JOIN_NEW])]
)
def test_members_start(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun], one_by_one: bool, causes: list[Cause]) -> None:
    run = new_run(new_plan("join"))
    set_up(run, everyone(run), one_by_one=one_by_one)
    assert set(run.members) == {0, 1, 2}
    labels = run.finish().rebalances
    assert [each.cause for each in labels] == causes
    assert not any(each.is_action for each in labels)
    assert (Cause.JOIN_NEW in labels[0].also) is not one_by_one
