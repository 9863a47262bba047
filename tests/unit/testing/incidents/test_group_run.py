"""A group run: what it waits for, the settings of its members, and its labels."""

from collections.abc import Callable

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.group_run import GroupRun, NotStable, Plan


def test_a_group_is_stable_when_each_member_has_a_part_and_all_have_everything(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    run = new_run(new_plan("join"))
    run.create_topics()
    handles = [run.start(position) for position in range(3)]
    run.wait_stable()
    handles[0].freeze()
    with pytest.raises(NotStable, match="s-join"):
        run.wait_stable()
    run.wait_stable(without=[0])
    run.topics[f"{run.group}.missing"] = 1
    with pytest.raises(NotStable):
        run.wait_stable(without=[0])


def test_settings_are_of_the_plan_and_what_an_action_changes(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("join"))
    run.defaults["max_poll_ms"] = 7_000
    settings = run.settings(2, instance_id="one")
    assert (settings.client, settings.max_poll_ms, settings.instance_id) == ("aiokafka", 7_000, "one")
    assert settings.group == run.group
    assert settings.topics == tuple(run.topics)
    assert run.settings(2, client="java").client == "java"


def test_a_label_has_the_time_of_its_block(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("join"))
    with run.caused(Cause.EXPIRE_HEARTBEAT):
        run.quiet(2, 2)
    (label,) = run.finish().rebalances
    assert label.to_ms - label.from_ms == 2_000
    assert (label.planned, label.avoidable, label.kind) == (False, True, "rebalance")


def test_a_block_that_fails_leaves_no_label(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("join"))
    with pytest.raises(NotStable), run.caused(Cause.ADMIN):
        raise NotStable
    assert run.finish().rebalances == ()
