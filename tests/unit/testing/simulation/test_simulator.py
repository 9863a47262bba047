"""The simulator: one seed is one run, the group recovers when faults end, and violations are reported."""

import pytest

from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects
from ottla.testing.simulation.consumer_member import CONSUMERS
from ottla.testing.simulation.consumers import MEMBERS_MAX
from ottla.testing.simulation.simulator import Simulation, SimulationFailed, main, simulate


class Broken(Coordinator):
    """Every timer is a mistake of ours."""

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> Effects:
        raise AssertionError("on purpose")


def test_a_run_is_reported_and_summarized() -> None:
    lines: list[str] = []
    outcome = simulate(11, report=lines.append)
    assert outcome.seed == 11
    assert outcome.steps > 0
    assert outcome.records > 0
    assert any("fault" in line for line in lines)
    assert outcome == simulate(11), "reporting changes nothing"


def test_a_run_ends_with_every_member_stable() -> None:
    simulation = started(3)
    alive = simulation.consumers.alive
    assert alive
    assert all(member.phase == "owning" for member in alive)
    owned = [(topic, number) for member in alive for topic, numbers in member.owned.items() for number in numbers]
    assert len(owned) == len(set(owned))


def test_groups_of_up_to_twelve() -> None:
    assert max(len(started(seed).consumers.alive) for seed in range(30)) <= MEMBERS_MAX


def started(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    return simulation


def test_our_own_mistakes_are_failures_of_the_seed() -> None:
    with pytest.raises(SimulationFailed, match=r"seed 3, .*on purpose.*make sim SEED=3, or python -m \S+ 3"):
        simulate(3, make=Broken)
    with pytest.raises(SimulationFailed, match=r"make sim SEED=3 MEMBERS=consumer, or python -m \S+ --members consumer 3"):
        simulate(3, make=Broken, kind=CONSUMERS)


def test_the_members_of_a_seed_are_chosen_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for members in ([], ["--members", "consumer"]):
        assert main([*members, "4", "4"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs == [f"{simulate(4)}\n" * 2, f"{simulate(4, kind=CONSUMERS)}\n" * 2]
