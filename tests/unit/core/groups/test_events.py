"""What events of all group types share: causes, reasons, and the event of a change."""

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.events import Cause, emit_change, reason_or_default
from ottla.core.groups.settings import GroupSettings


def test_reasons_and_causes() -> None:
    assert reason_or_default(None) == reason_or_default("") == "not provided"
    assert all(cause.value == cause.name for cause in Cause)


def test_a_change_has_the_groups_present_fields() -> None:
    context, group = CommandContext(CoordinatorState(GroupSettings()), 5, 7), ClassicGroup("g", now_ms=0)
    group.generation, group.protocol, group.leader = 3, "range", "m1"
    emit_change(context, group, "emptied", "PreparingRebalance", "Empty", evidence={"count": 2}, reason="why")
    (event,) = context.events
    assert (event.at_ms, event.group, event.kind, event.generation) == (5, "g", "emptied", 3)
    assert (event.state_from, event.state_to, event.protocol, event.leader) == ("PreparingRebalance", "Empty", "range", "m1")
    assert (event.evidence, event.reason, event.trigger) == ({"count": 2}, "why", None)
