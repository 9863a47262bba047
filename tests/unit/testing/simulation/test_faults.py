"""Every kind of fault is injected, until faults end."""

from random import Random
from typing import Any

from ottla.testing.simulation.faults import Faults


def test_all_kinds_happen_and_stop_when_faults_end(world: Any) -> None:
    faults = Faults(world.conditions, world.broker, world.consumers, world.trace, clock_rng=Random(1))
    world.consumers.add(1)
    world.conditions.has_faults = True
    faults.inject()
    faults.jump_clock_later()
    world.run(600_000)
    kinds = {line.split("fault: ")[1].split()[0] for line in world.lines if "fault: " in line}
    assert kinds == {"freeze", "crash", "leave", "join", "twin", "topics", "grow", "broker", "move", "standalone"}
    assert any("the time of day is" in line for line in world.lines)
    world.conditions.has_faults = False
    seen = len([line for line in world.lines if "fault: " in line])
    world.run(60_000)
    assert len([line for line in world.lines if "fault: " in line]) == seen
