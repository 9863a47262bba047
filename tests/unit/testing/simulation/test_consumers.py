"""Members join over the simulated network; there is a largest number of them."""

from typing import Any

from ottla.testing.simulation.consumers import MEMBERS_MAX


def test_members_form_a_group_and_own_all_partitions(world: Any) -> None:
    for number in range(3):
        world.consumers.add(number)
    world.run(60_000)
    assert [member.phase for member in world.consumers.alive] == ["owning"] * 3
    owned = {(topic, number) for member in world.consumers.alive for topic in member.owned for number in member.owned[topic]}
    assert {topic for topic, _ in owned} <= world.consumers.partitions.keys()


def test_no_more_than_the_largest_number_run(world: Any) -> None:
    for number in range(MEMBERS_MAX + 3):
        world.consumers.add(number)
    assert len(world.consumers.alive) == MEMBERS_MAX


def test_ids_and_offsets_are_never_given_twice(world: Any) -> None:
    assert world.consumers.next_offset() < world.consumers.next_offset()
    assert world.consumers.next_member_id("c") != world.consumers.next_member_id("c")
