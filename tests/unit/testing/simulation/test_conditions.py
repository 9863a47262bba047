"""Faults and delays: as often as their probability says, and none when faults end."""

from random import Random

from ottla.testing.simulation.conditions import Conditions


def test_faults_happen_as_often_as_they_should_and_then_no_more() -> None:
    conditions = Conditions(Random(1))
    assert 150 < sum(conditions.chance(0.2) for _ in range(1000)) < 250
    assert max(conditions.latency_ms() for _ in range(500)) >= 500
    conditions.has_faults = False
    assert not any(conditions.chance(0.99) for _ in range(100))
    assert max(conditions.latency_ms() for _ in range(500)) < 20
