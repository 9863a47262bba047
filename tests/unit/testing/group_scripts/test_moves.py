"""Every move can be made, and is what it says it is."""

from random import Random

from ottla.testing.group_scripts.moves import MOVES, honest_moves, honest_step, plan_of
from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.view import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Need, Picture, Step, View
from ottla.testing.raw_client import build_request


def stable(seed: int) -> View:
    """A view in which every actor is a member of a stable group."""
    view = Script(seed, "g").view
    for actor in view.actors:
        actor.member_id, actor.generation, actor.need = f"{actor.client_id}-<1>", 1, Need.NOTHING
        actor.old_ids = [f"{actor.client_id}-<0>"]
    view.actors[0].leads = True
    protocol = view.actors[0].protocols[0][0]
    view.picture = Picture(state="Stable", protocol=protocol, members={actor.member_id: actor.instance_id for actor in view.actors})
    view.topics["g-gone"] = 2
    view.gone_topics = {"g-was-there"}
    return view


def test_every_kind_of_step_occurs_and_is_a_request() -> None:
    kinds: dict[str, Step] = {}
    for seed in range(60):
        rng = Random(seed)
        for view in (stable(seed), Script(seed, "g").view):
            for _ in range(4):
                for move in MOVES:
                    step = move.make(rng, view)
                    if step is not None:
                        kinds.setdefault(step.kind, step)
    for step in kinds.values():
        assert step.api is not None
        build_request(step.api, step.version, dict(step.values) if step.api != 8 else {})
    names = (
        "rejoin",
        "static-bounce",
        "join",
        "sync",
        "heartbeat",
        "leave",
        "commit",
        "fetch",
        "offset-delete",
        "describe",
        "list",
        "find",
    )
    assert all(any(kind.startswith(name) for kind in kinds) for name in (*names, "delete-groups", "delete-topic"))
    assert len(kinds) > 70, sorted(kinds)


def test_who_is_nobody_joins_who_joined_syncs_and_who_is_done_beats_when_the_group_moves() -> None:
    view, rng = stable(3), Random(1)
    actor = view.actors[0]
    assert honest_step(rng, view, actor) is None
    view.picture = Picture(state="PreparingRebalance", members=view.picture.members)
    beat = honest_step(rng, view, actor)
    actor.need = Need.SYNC
    sync = honest_step(rng, view, actor)
    actor.need = Need.JOIN
    join = honest_step(rng, view, actor)
    assert [step.api for step in (beat, sync, join) if step is not None] == [HEARTBEAT, SYNC_GROUP, JOIN_GROUP]


def test_whoever_waits_for_an_answer_sends_nothing_right() -> None:
    view = Script(5, "g").view
    everybody = {number: Step(kind="join", api=JOIN_GROUP, actor=number) for number in range(len(view.actors))}
    assert honest_moves(Random(1), view)
    view.parked = everybody
    assert honest_moves(Random(1), view) == []


def test_a_plan_has_every_member_and_the_leader() -> None:
    view = stable(8)
    assert plan_of(view, view.actors[0]).keys() == {actor.member_id for actor in view.actors}
