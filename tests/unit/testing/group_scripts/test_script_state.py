"""What scripted members learn from responses."""

import pytest

from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, Actor, Need, ScriptState, Step


def member_after(api: int, answer: dict[str, object], *, member_id: str = "m1") -> Actor:
    state = Script(1, "g").state
    actor = state.actors[0]
    actor.member_id, actor.need = "m1", Need.NOTHING
    state.learn(Step(kind="x", api=api, actor=0, values={"member_id": member_id}), answer)
    return actor


def test_an_id_is_handed_out() -> None:
    actor = member_after(JOIN_GROUP, {"error_code": 79, "member_id": "m2"}, member_id="")
    assert (actor.member_id, actor.need, actor.old_ids) == ("m2", Need.JOIN, ["m1"])


def test_a_join_is_answered() -> None:
    actor = member_after(JOIN_GROUP, {"error_code": 0, "member_id": "m1", "generation_id": 3, "leader": "m1"})
    assert (actor.generation, actor.leads, actor.need) == (3, True, Need.SYNC)


@pytest.mark.parametrize(
    ("api", "error", "need", "member_id"),
    [
        (SYNC_GROUP, 0, Need.NOTHING, "m1"),
        (SYNC_GROUP, 27, Need.JOIN, "m1"),
        (HEARTBEAT, 22, Need.JOIN, "m1"),
        (HEARTBEAT, 25, Need.JOIN, ""),
        (HEARTBEAT, 82, Need.JOIN, ""),
        (JOIN_GROUP, 25, Need.JOIN, ""),
        (LEAVE_GROUP, 0, Need.JOIN, ""),
        (LEAVE_GROUP, 25, Need.NOTHING, "m1"),
    ],
)
def test_errors(api: int, error: int, need: Need, member_id: str) -> None:
    actor = member_after(api, {"error_code": error, "member_id": "m1"})
    assert (actor.need, actor.member_id) == (need, member_id)


def test_others_learn_nothing() -> None:
    state = Script(1, "g").state
    state.learn(Step(kind="x", api=HEARTBEAT, values={"member_id": ""}), {"error_code": 25})
    assert all(actor.need is Need.JOIN for actor in state.actors)


def test_who_is_parked_and_who_owns_an_id() -> None:
    state: ScriptState = Script(1, "g").state
    actor = state.actors[0]
    assert not state.is_parked(actor)
    state.parked[1] = Step(kind="x", api=JOIN_GROUP, actor=0)
    assert state.is_parked(actor)
    actor.member_id = "m1"
    assert state.owner("m1") is actor
    assert state.owner("m2") is None


def test_a_step_in_words() -> None:
    assert str(Step(kind="wait")) == "wait: wait until the group changes"
    assert str(Step(kind="wait", pause_ms=5)) == "wait: wait 5 ms"
    step = Step(kind="heartbeat", api=12, values={"a": "x" * 4097}, actor=3)
    assert "xxx...x" in str(step)
    assert step.without_actor().actor is None
    assert step.armed(7).arms_ms == 7
