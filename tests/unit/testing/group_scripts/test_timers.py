"""Moves in which timers fire: their steps and their members."""

from random import Random

from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import Actor, GroupDescription, Need, ScriptState, Step
from ottla.testing.group_scripts.timers import (
    SESSION_SHORT_MS,
    TIMER_MOVES,
    absent_members,
    is_stable,
    lone_member_runs_out,
    pending_id_runs_out,
    static_member_runs_out,
)


def state_of(count: int, *, static: bool = False, group_state: str = "Stable") -> ScriptState:
    state = Script(1, "g").state
    state.actors = [
        Actor(
            number=number,
            client_id=f"c{number}",
            instance_id=f"static-{number}" if static else None,
            protocols=[("range", b"")],
            session_ms=60_000,
            rebalance_ms=60_000,
            member_id=f"m{number}",
            generation=1,
            leads=number == 0,
            need=Need.NOTHING,
        )
        for number in range(count)
    ]
    state.description = GroupDescription(
        state=group_state, protocol="range", members={actor.member_id: actor.instance_id for actor in state.actors}
    )
    return state


def test_a_pending_id_expires() -> None:
    state = state_of(1)
    assert pending_id_runs_out(Random(1), state) is None
    state.actors[0].forget_id()
    assignments = pending_id_runs_out(Random(1), state)
    assert assignments is not None
    asks, waits, comes = (make() for make in assignments)
    assert asks is not None
    assert asks.version >= 4
    assert asks.values["session_timeout"] == asks.arms_ms == SESSION_SHORT_MS
    assert waits is not None
    assert waits.pause_ms is not None
    assert waits.pause_ms > 2 * SESSION_SHORT_MS
    assert comes is None, "no id was handed out"


def test_a_static_member_expires_unless_the_next_leader_would_be_arbitrary() -> None:
    assignments = static_member_runs_out(Random(1), state_of(1, static=True))
    assert assignments is not None
    assert [step.kind for make in assignments if (step := make()) is not None] == [
        "expire-static-join",
        "expire-static-heartbeat",
        "expire-static",
    ]
    assert static_member_runs_out(Random(1), state_of(1)) is None
    for seed in range(20):
        assignments = static_member_runs_out(Random(seed), state_of(3, static=True))
        assert assignments is not None
        step = assignments[0]()
        assert step is not None
        assert step.actor != 0


def test_the_only_member_expires() -> None:
    assert lone_member_runs_out(Random(1), state_of(2)) is None
    assignments = lone_member_runs_out(Random(1), state_of(1))
    assert assignments is not None
    assert assignments[-1]() == Step(kind="expire-alone")


def test_a_script_ends_where_a_session_would_begin_at_some_other_time() -> None:
    state = state_of(1)
    assignments = lone_member_runs_out(Random(1), state)
    assert assignments is not None
    state.parked = {1: Step(kind="join", actor=0)}
    assert assignments[-1]() is None
    assert state.is_over


def test_no_members_get_no_assignment() -> None:
    empty = state_of(0, group_state="Empty")
    assert all(make(Random(1), empty) is None for make in TIMER_MOVES)


def test_the_leader_is_not_absent_while_two_others_join() -> None:
    for seed in range(50):
        state = state_of(4)
        absent = absent_members(Random(seed), state)
        assert 0 not in absent or len(absent) >= 3


def test_stable() -> None:
    assert is_stable(state_of(2))
    assert is_stable(state_of(0, group_state="Empty"))
    assert not is_stable(state_of(2, group_state="PreparingRebalance"))
    state = state_of(2)
    state.actors[1].need = Need.SYNC
    assert not is_stable(state)
