"""A scripted group that is stable, for tests of moves."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import GroupDescription, Need, ScriptState, Step

MakeStep = Callable[[Random, ScriptState], Step | None]


def _stable(seed: int) -> ScriptState:
    """A state in which every actor is a member of a stable group."""
    state = Script(seed, "g").state
    for actor in state.actors:
        actor.member_id, actor.generation, actor.need = f"{actor.client_id}-<1>", 1, Need.NOTHING
        actor.old_ids = [f"{actor.client_id}-<0>"]
    state.actors[0].leads = True
    protocol = state.actors[0].protocols[0][0]
    state.description = GroupDescription(
        state="Stable", protocol=protocol, members={actor.member_id: actor.instance_id for actor in state.actors}
    )
    state.topics["g-gone"] = 2
    state.gone_topics = {"g-was-there"}
    return state


@pytest.fixture
def stable() -> Callable[[int], ScriptState]:
    """Makes the state of a seed."""
    return _stable


@pytest.fixture
def kinds_of() -> Callable[[Sequence[MakeStep]], dict[str, Step]]:
    """The kinds of steps that some moves make, with an example of each."""

    def find(moves: Sequence[MakeStep]) -> dict[str, Step]:
        found: dict[str, Step] = {}
        for seed in range(60):
            rng, state = Random(seed), _stable(seed)
            for move in moves:
                step = move(rng, state)
                if step is not None:
                    found.setdefault(step.kind, step)
        return found

    return find
