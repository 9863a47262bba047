"""What a correct client sends: by its state, and nothing while it is parked."""

from collections.abc import Callable
from random import Random

from ottla.testing.group_scripts.correct_moves import assignments_of, correct_moves, correct_step
from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, GroupDescription, Need, ScriptState, Step


def test_members_join_then_sync_then_send_heartbeats_during_a_rebalance(stable: Callable[[int], ScriptState]) -> None:
    state, rng = stable(3), Random(1)
    actor = state.actors[0]
    assert correct_step(rng, state, actor) is None
    state.description = GroupDescription(state="PreparingRebalance", members=state.description.members)
    heartbeat_step = correct_step(rng, state, actor)
    actor.need = Need.SYNC
    sync = correct_step(rng, state, actor)
    actor.need = Need.JOIN
    join = correct_step(rng, state, actor)
    assert [step.api for step in (heartbeat_step, sync, join) if step is not None] == [HEARTBEAT, SYNC_GROUP, JOIN_GROUP]


def test_a_parked_member_sends_no_right_request() -> None:
    state = Script(5, "g").state
    all_parked = {number: Step(kind="join", api=JOIN_GROUP, actor=number) for number in range(len(state.actors))}
    assert correct_moves(Random(1), state)
    state.parked = all_parked
    assert correct_moves(Random(1), state) == []


def test_an_assignment_has_every_member_and_the_leader(stable: Callable[[int], ScriptState]) -> None:
    state = stable(8)
    assert assignments_of(state, state.actors[0]).keys() == {actor.member_id for actor in state.actors}
