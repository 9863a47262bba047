"""A simulated world: a broker, no member yet, and the lines of its trace."""

from random import Random

import pytest

from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.settings import GroupSettings
from ottla.testing.kit.coordinator_shell import CoordinatorShell
from ottla.testing.simulation.conditions import Conditions
from ottla.testing.simulation.consumers import Consumers
from ottla.testing.simulation.simulated_broker import SimulatedBroker
from ottla.testing.simulation.trace import Trace


class World:
    """Without faults, unless the test allows them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.conditions = Conditions(Random(5))
        self.conditions.has_faults = False
        self.events = self.conditions.events
        self.trace = Trace(self.events, self.lines.append)
        settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self.broker = SimulatedBroker(CoordinatorShell(lambda: Coordinator(settings)), self.conditions, self.trace, shares_appends=False)
        self.consumers = Consumers(self.conditions, self.broker)
        self.broker.start()

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.events.run_until(self.events.now_ms + duration_ms, lambda: False)


@pytest.fixture
def world() -> World:
    """A world whose broker is starting."""
    return World()
