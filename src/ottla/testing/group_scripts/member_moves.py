"""SyncGroup, Heartbeat and LeaveGroup: right, with a wrong identity, and unusual."""

from random import Random
from typing import Any

from ottla.testing.group_scripts.correct_moves import any_actor, any_member, assignments_of
from ottla.testing.group_scripts.requests import IDENTITIES, UNKNOWN_MEMBER, heartbeat, leave, leave_many, sync, wrong_identity
from ottla.testing.group_scripts.script_state import Actor, ScriptState, Step


def sync_wrong(rng: Random, state: ScriptState) -> Step | None:
    actor = any_member(rng, state)
    if actor is None:
        return None
    what = rng.choice(
        [
            *IDENTITIES,
            "type",
            "name",
            "no-protocol",
            "no-assignments",
            "partial-assignments",
            "foreign-member",
            "early",
            "as-leader",
        ]
    )
    assignments = assignments_of(state, actor) if actor.leads else {}
    if what == "type":
        return sync(rng, state, actor, "sync-type", assignments, protocol_type="other")
    if what == "name":
        return sync(rng, state, actor, "sync-name", assignments, protocol_name="other")
    if what == "no-protocol":
        return sync(rng, state, actor, "sync-no-protocol", assignments, protocol_type=None, protocol_name=None)
    if what == "early":
        return sync(rng, state, actor, "sync-any-state", assignments)
    if what == "as-leader":
        return None if actor.leads else sync(rng, state, actor, "sync-as-leader", assignments_of(state, actor))
    if what in ("no-assignments", "partial-assignments", "foreign-member"):
        return _unusual_assignments(rng, state, actor, what, assignments)
    wrong = wrong_identity(rng, state, actor, what)
    return None if wrong is None else sync(rng, state, actor, f"sync-{what}", assignments, **wrong).without_actor()


def _unusual_assignments(rng: Random, state: ScriptState, actor: Actor, what: str, assignments: dict[str, bytes]) -> Step | None:
    if not actor.leads or state.is_parked(actor):
        return None
    if what == "no-assignments":
        assignments = {}
    elif what == "partial-assignments":
        assignments = dict(rng.sample(sorted(assignments.items()), len(assignments) // 2))
    else:
        assignments |= {UNKNOWN_MEMBER: b"for an unknown member"}
    return sync(rng, state, actor, f"sync-{what}", assignments)


def heartbeat_right(rng: Random, state: ScriptState) -> Step | None:
    actor = any_member(rng, state)
    return None if actor is None else heartbeat(rng, state, actor, "heartbeat")


def heartbeat_wrong(rng: Random, state: ScriptState) -> Step | None:
    actor = any_actor(rng, state)
    what = rng.choice(IDENTITIES)
    wrong = wrong_identity(rng, state, actor, what)
    return None if wrong is None else heartbeat(rng, state, actor, f"heartbeat-{what}", **wrong).without_actor()


def _makes_the_next_leader_arbitrary(state: ScriptState, leaving: list[Actor]) -> bool:
    """Whether Kafka chooses an arbitrary member as the next leader; two brokers then may differ, which ends the script."""
    return any(actor.leads for actor in leaving) and len(state.description.members) - len(leaving) > 1


def leave_right(rng: Random, state: ScriptState) -> Step | None:
    actor = any_actor(rng, state)
    if not actor.member_id or (_makes_the_next_leader_arbitrary(state, [actor]) and rng.random() < 0.8):
        return None
    is_member = actor.member_id in state.description.members
    return leave(rng, state, actor, "leave-while-parked" if state.is_parked(actor) else "leave" if is_member else "leave-pending")


def leave_wrong(rng: Random, state: ScriptState) -> Step | None:
    actor = any_actor(rng, state)
    what = rng.choice(IDENTITIES[1:])
    if what == "empty-id" and not actor.instance_id:
        return None
    wrong = wrong_identity(rng, state, actor, what)
    return None if wrong is None else leave(rng, state, actor, f"leave-{what}", **wrong).without_actor()


def leave_several(rng: Random, state: ScriptState) -> Step | None:
    members: list[dict[str, Any]] = []
    leaving = rng.sample(state.actors, rng.randint(0, len(state.actors)))
    if _makes_the_next_leader_arbitrary(state, leaving) and rng.random() < 0.8:
        return None
    for actor in leaving:
        by_instance = actor.instance_id is not None and rng.random() < 0.5
        member_id = "" if by_instance else actor.member_id
        instance_id = actor.instance_id if by_instance or rng.random() < 0.5 else None
        members.append({"member_id": member_id, "group_instance_id": instance_id, "reason": rng.choice([None, "removed"])})
    if rng.random() < 0.3:
        members.append({"member_id": UNKNOWN_MEMBER})
    if members and rng.random() < 0.2:
        members.append(rng.choice(members))
    return leave_many(rng, state, "leave-many" if members else "leave-no-member", members)
