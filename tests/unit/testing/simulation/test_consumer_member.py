"""A process of a simulation that runs a consumer's membership. Whole groups of them: tests/simulation/test_consumer_membership.py."""

from ottla.testing.simulation.consumer_member import CONSUMERS, ConsumerMember
from ottla.testing.simulation.simulator import Simulation, simulate


def test_a_run_ends_with_every_partition_owned_once() -> None:
    simulation = Simulation(3, kind=CONSUMERS)
    simulation.run()
    alive = simulation.consumers.alive
    assert alive
    assert all(isinstance(member, ConsumerMember) and member.phase == "owning" for member in alive)
    owned = sorted((topic, number) for member in alive for topic, numbers in member.owned.items() for number in numbers)
    topics = {topic for member in alive for topic in member.topics}
    assert owned == [(topic, number) for topic in sorted(topics) for number in range(simulation.consumers.partitions[topic])]


def test_members_say_why_they_join() -> None:
    reasons: set[str] = set()
    for seed in range(6):
        simulation = Simulation(seed, kind=CONSUMERS)
        simulation.run()
        for member in simulation.consumers.members:
            assert isinstance(member, ConsumerMember)
            reasons.update(member.rejoin_reasons)
    assert {"", "group is already rebalancing", "subscription has changed", "cached metadata has changed"} <= reasons


def test_both_protocols_are_simulated() -> None:
    protocols = {Simulation(seed, kind=CONSUMERS).consumers.protocols for seed in range(10)}
    assert protocols == set(CONSUMERS.protocols)


def test_crashed_members_own_nothing() -> None:
    simulation = Simulation(11, kind=CONSUMERS)
    simulation.run()
    assert all(member.owned == {} for member in simulation.consumers.members if not member.is_alive)
    assert simulate(11, kind=CONSUMERS) == simulate(11, kind=CONSUMERS)
