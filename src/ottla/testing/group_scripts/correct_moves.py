"""What a correct client sends next, and which members a move may choose from."""

from random import Random
from typing import Any

from ottla.testing.group_scripts.requests import heartbeat, join, sync
from ottla.testing.group_scripts.script_state import Actor, Need, ScriptState, Step


def correct_moves(rng: Random, state: ScriptState) -> list[Step]:
    """What correct members send now; none if all are parked or have nothing to do."""
    return [step for actor in state.actors if not state.is_parked(actor) and (step := correct_step(rng, state, actor)) is not None]


def correct_step(rng: Random, state: ScriptState, actor: Actor) -> Step | None:
    """What this member sends now; None if it has nothing to do."""
    if actor.need is Need.JOIN:
        return correct_join(rng, state, actor)
    if actor.need is Need.SYNC:
        return correct_sync(rng, state, actor)
    if state.description.state != "Stable":
        return heartbeat(rng, state, actor, "heartbeat")
    return None


def correct_join(rng: Random, state: ScriptState, actor: Actor, **values: Any) -> Step:
    """JoinGroup: without an id, with a handed-out id, or again."""
    if actor.instance_id:
        kind = "join-static" if not actor.member_id else "join-static-again"
    elif not actor.member_id:
        kind = "join-new"
    else:
        kind = "join-again" if actor.member_id in state.description.members else "join-with-id"
    return join(rng, state, actor, kind, **values)


def correct_sync(rng: Random, state: ScriptState, actor: Actor) -> Step:
    """SyncGroup: with the assignments if the member leads."""
    if not actor.leads:
        return sync(rng, state, actor, "sync-follower", {})
    assignments = assignments_of(state, actor)
    if rng.random() < 0.1:
        return sync(rng, state, actor, "sync-partial-assignments", dict(rng.sample(sorted(assignments.items()), len(assignments) // 2)))
    return sync(rng, state, actor, "sync-leader", assignments)


def assignments_of(state: ScriptState, leader: Actor) -> dict[str, bytes]:
    """An assignment for every member that the group has."""
    return {
        member_id: f"{member_id} in {leader.generation}".encode() for member_id in sorted({*state.description.members, leader.member_id})
    }


def any_actor(rng: Random, state: ScriptState) -> Actor:
    return rng.choice(state.actors)


def any_member(rng: Random, state: ScriptState) -> Actor | None:
    joined = state.joined()
    return rng.choice(joined) if joined else None
