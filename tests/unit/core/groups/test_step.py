"""A step collects effects and changes soft state alone."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.effects import Effects, HeartbeatResult, Reply, TimerSet
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.step import Registry, Step
from ottla.core.groups.timers import JOIN, SESSION, Timer


def test_a_step_without_effects_is_empty() -> None:
    assert Step(Registry(GroupSettings()), 5, 5).effects() == Effects()


def test_what_is_collected_comes_out() -> None:
    step, timer = Step(Registry(GroupSettings()), 5, 5), Timer(JOIN, "g")
    step.reply(1, HeartbeatResult(error=ErrorCode.NONE))
    step.log("line")
    step.arm(timer, 10)
    effects = step.effects()
    assert effects.replies == (Reply(to=1, result=HeartbeatResult(error=ErrorCode.NONE)),)
    assert effects.log_lines == ("line",)
    assert effects.timers == (TimerSet(key="join g", at_ms=15),)


def test_a_timer_that_is_cancelled_in_the_same_step_is_not_told() -> None:
    step, timer = Step(Registry(GroupSettings()), 5, 5), Timer(JOIN, "g")
    step.arm(timer, 10)
    step.cancel(timer)
    assert step.effects().timers == ()
    assert step.registry.timers.next_deadline_ms() is None


def test_dropping_a_group_cancels_what_it_armed() -> None:
    registry = Registry(GroupSettings())
    group = registry.groups["g"] = ClassicGroup("g", now_ms=0)
    group.pending["m1"] = Timer(SESSION, "g", "m1")
    for timer in (group.join_timer, group.sync_timer, group.pending["m1"]):
        registry.timers.arm(timer, 10)
    registry.drop(group)
    assert registry.groups == {}
    assert registry.timers.next_deadline_ms() is None
