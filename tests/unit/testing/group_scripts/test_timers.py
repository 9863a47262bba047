"""Scripts in which time runs out: what is planned, and for whom."""

from random import Random

from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.timers import (
    SESSION_SHORT_MS,
    TIMER_MOVES,
    is_calm,
    lazy_members,
    lone_member_runs_out,
    pending_id_runs_out,
    static_member_runs_out,
)
from ottla.testing.group_scripts.view import Actor, Need, Picture, Step, View


def view_of(count: int, *, static: bool = False, state: str = "Stable") -> View:
    view = Script(1, "g").view
    view.actors = [
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
    view.picture = Picture(state=state, protocol="range", members={actor.member_id: actor.instance_id for actor in view.actors})
    return view


def test_a_pending_id_runs_out() -> None:
    view = view_of(1)
    assert pending_id_runs_out(Random(1), view) is None
    view.actors[0].forget_id()
    plan = pending_id_runs_out(Random(1), view)
    assert plan is not None
    asks, waits, comes = (make() for make in plan)
    assert asks is not None
    assert asks.version >= 4
    assert asks.values["session_timeout"] == asks.arms_ms == SESSION_SHORT_MS
    assert waits is not None
    assert waits.pause_ms is not None
    assert waits.pause_ms > 2 * SESSION_SHORT_MS
    assert comes is None, "no id was handed out"


def test_a_static_member_runs_out_unless_that_leaves_it_open_who_leads() -> None:
    plan = static_member_runs_out(Random(1), view_of(1, static=True))
    assert plan is not None
    assert [step.kind for make in plan if (step := make()) is not None] == [
        "expire-static-join",
        "expire-static-heartbeat",
        "expire-static",
    ]
    assert static_member_runs_out(Random(1), view_of(1)) is None
    for seed in range(20):
        plan = static_member_runs_out(Random(seed), view_of(3, static=True))
        assert plan is not None
        step = plan[0]()
        assert step is not None
        assert step.actor != 0


def test_a_lone_member_runs_out() -> None:
    assert lone_member_runs_out(Random(1), view_of(2)) is None
    plan = lone_member_runs_out(Random(1), view_of(1))
    assert plan is not None
    assert plan[-1]() == Step(kind="expire-alone")


def test_a_script_ends_where_a_session_would_begin_at_some_other_time() -> None:
    view = view_of(1)
    plan = lone_member_runs_out(Random(1), view)
    assert plan is not None
    view.parked = {1: Step(kind="join", actor=0)}
    assert plan[-1]() is None
    assert view.is_over


def test_nothing_is_planned_for_nobody() -> None:
    empty = view_of(0, state="Empty")
    assert all(make(Random(1), empty) is None for make in TIMER_MOVES)


def test_the_leader_stays_awake_when_two_others_do() -> None:
    for seed in range(50):
        view = view_of(4)
        lazy = lazy_members(Random(seed), view)
        assert 0 not in lazy or len(lazy) >= 3


def test_calm() -> None:
    assert is_calm(view_of(2))
    assert is_calm(view_of(0, state="Empty"))
    assert not is_calm(view_of(2, state="PreparingRebalance"))
    view = view_of(2)
    view.actors[1].need = Need.SYNC
    assert not is_calm(view)
