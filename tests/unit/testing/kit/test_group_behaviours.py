from ottla.testing.kit.group_behaviours import random_behaviour


def test_a_seed_gives_one_group_and_its_actions_are_in_order() -> None:
    for seed in range(50):
        group = random_behaviour(seed)
        assert group == random_behaviour(seed)
        for process in group.processes:
            ends = [action.until_ms or action.at_ms for action in process.actions]
            assert ends == sorted(ends)
    assert random_behaviour(1) != random_behaviour(2)
