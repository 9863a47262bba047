"""The trace: equal for equal effects, and readable."""

from typing import Any

from ottla.testing.simulation.trace import Trace


def test_equal_effects_have_equal_hashes_and_lines_are_reported(world: Any) -> None:
    first = world.trace.hexdigest()
    world.consumers.add(1)
    world.run(20_000)
    assert world.trace.hexdigest() != first
    assert world.trace.causes == {"JOIN_NEW"}
    assert any("JoinGroup" in line for line in world.lines)
    world.trace.line("fault: none")
    assert world.lines[-1] == f"{world.events.now_ms} fault: none"


def test_without_a_reader_nothing_is_rendered(world: Any) -> None:
    silent = Trace(world.events, None)
    silent.line("unread")
    assert silent.hexdigest() == Trace(world.events, None).hexdigest()
