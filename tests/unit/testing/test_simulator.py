"""The simulator: one seed is one life, good times heal, and what breaks is said."""

import pytest

from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects
from ottla.testing.simulator import MEMBERS_MAX, Simulation, SimulationFailed, simulate


class Broken(Coordinator):
    """Every timer is a mistake of ours."""

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        raise AssertionError("on purpose")


def test_a_life_is_told_and_summed_up() -> None:
    lines: list[str] = []
    outcome = simulate(11, tell=lines.append)
    assert outcome.seed == 11
    assert outcome.steps > 0
    assert outcome.records > 0
    assert any("bad luck" in line for line in lines)
    assert outcome == simulate(11), "telling changes nothing"


def test_a_life_ends_with_everybody_at_rest() -> None:
    simulation = started(3)
    alive = [member for member in simulation._members if member.alive]
    assert alive
    assert all(member.phase == "owning" for member in alive)
    owned = [(topic, number) for member in alive for topic, numbers in member.owned.items() for number in numbers]
    assert len(owned) == len(set(owned))


def test_groups_of_up_to_twelve() -> None:
    assert max(len([member for member in started(seed)._members if member.alive]) for seed in range(30)) <= MEMBERS_MAX


def started(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    return simulation


def test_our_own_mistakes_are_failures_of_the_seed() -> None:
    with pytest.raises(SimulationFailed, match=r"seed 3, .*on purpose.*make sim SEED=3"):
        simulate(3, make=Broken)
