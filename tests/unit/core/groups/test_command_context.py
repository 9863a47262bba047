"""A command context collects effects and changes soft state alone."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.effects import Effects, HeartbeatResult, Reply, TimerSet
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.timers import JOIN, Timer


def test_a_command_without_effects_is_empty() -> None:
    assert CommandContext(CoordinatorState(GroupSettings()), 5, 5).effects() == Effects()


def test_collected_effects_are_returned() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.reply(1, HeartbeatResult(error=ErrorCode.NONE))
    context.log("line")
    context.arm(timer, 10)
    effects = context.effects()
    assert effects.replies == (Reply(to=1, result=HeartbeatResult(error=ErrorCode.NONE)),)
    assert effects.log_lines == ("line",)
    assert effects.timers == (TimerSet(key="join g", at_ms=15),)


def test_a_timer_that_is_cancelled_by_the_same_command_is_not_reported() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.arm(timer, 10)
    context.cancel(timer)
    assert context.effects().timers == ()
    assert context.state.timers.next_deadline_ms() is None
