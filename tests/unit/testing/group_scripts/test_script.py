"""Scripts are equal for equal seeds, end, and take every kind of step, also without any response."""

from collections import Counter
from collections.abc import Callable

import pytest

from ottla.testing.group_scripts.script import STEPS_MAX, Script
from ottla.testing.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, OUTSIDER, GroupDescription, Need, ScriptState, Step


def steps_of(seed: int, **options: int) -> list[str]:
    script = Script(seed, "g", **options)
    steps = []
    while (step := script.next()) is not None:
        steps.append(str(step))
    return steps


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_a_script(seed: int) -> None:
    steps = steps_of(seed)
    assert steps == steps_of(seed)
    assert 0 < len(steps) <= 3 * STEPS_MAX


def test_seeds_differ() -> None:
    assert len({tuple(steps_of(seed)) for seed in range(20)}) == 20


def test_small_groups_get_more_members_than_they_have_room_for() -> None:
    usual = [len(Script(seed, "g").state.actors) for seed in range(20)]
    assert [len(Script(seed, "g", group_size_max=3).state.actors) for seed in range(20)] == [count + 2 for count in usual]


def test_a_script_that_is_over_says_so() -> None:
    script = Script(1, "g")
    script.state.is_over = True
    assert script.next() is None


def test_hurried_scripts_complete_a_rebalance_first() -> None:
    script = next(script for seed in range(100) if (script := Script(seed, "g")).style.hurried)
    actor = script.state.actors[0]
    actor.member_id, actor.need = "m", Need.SYNC
    script.state.description = GroupDescription(state="CompletingRebalance", protocol="range", members={"m": actor.instance_id})
    assert script.is_hurried_now
    step = script.next()
    assert step is not None
    assert step.kind.startswith(("sync-", "join-")), step


def test_most_first_steps_of_members_are_joins() -> None:
    first = Counter(step.api for seed in range(200) if (step := Script(seed, "g").next()) is not None)
    assert first.most_common(1)[0][0] == JOIN_GROUP


def test_some_steps_are_sent_with_others_of_other_clients(stable: Callable[[int], ScriptState]) -> None:
    together: list[list[Step]] = []
    for seed in range(60):
        script = Script(seed, "g")
        script.state = stable(seed)
        first = script.next()
        if first is not None:
            together.append([first, *script.sent_with(first)])
        if script.style.hurried:
            assert len(together[-1]) == 1
    several = [steps for steps in together if len(steps) > 1]
    assert 5 < len(several) < len(together)
    for steps in several:
        clients = [step.client_id for step in steps if step.client_id != OUTSIDER]
        assert len(set(clients)) == len(clients)


def test_every_other_script_lets_the_reference_have_several_requests_of_members_under_way() -> None:
    beat, fetch = Step(kind="beat", api=HEARTBEAT), Step(kind="fetch", api=9)
    assert [Script(seed, "g").overlaps_on_reference([beat, beat]) for seed in range(4)] == [True, False, True, False]
    assert not Script(0, "g").overlaps_on_reference([beat, fetch])
