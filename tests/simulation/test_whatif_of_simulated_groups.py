"""What-if on groups whose network loses messages and whose broker is killed: a replay cannot be exact there, and must not fail."""

from typing import Any

import pytest

from ottla.groups.events import GroupEvent
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.whatif.prediction import agreement, outcome_with
from ottla.history.whatif.reconstruction import reconstruct
from ottla.history.whatif.settings import Settings
from trials.simulation.member import GROUP_ID
from trials.simulation.simulated_broker import SimulatedBroker
from trials.simulation.simulator import simulate


def test_most_rebalances_of_chaotic_groups_are_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[GroupEvent] = []
    apply = SimulatedBroker._apply

    def record(broker: SimulatedBroker, effects: Any, command: Any) -> None:
        events.extend(effects.events)
        apply(broker, effects, command)

    monkeypatch.setattr(SimulatedBroker, "_apply", record)
    recorded = reproduced = 0
    for seed in range(8):
        events.clear()
        simulate(seed)
        evidence = [item for item in evidence_of_events(events, clock="c") if item.group == GROUP_ID]
        behaviour = reconstruct(GROUP_ID, evidence)
        found = agreement(behaviour.recorded_ms, outcome_with(behaviour, Settings()))
        recorded, reproduced = recorded + found.recorded, reproduced + found.reproduced
    assert reproduced / recorded > 0.65, f"{reproduced} of {recorded}"
