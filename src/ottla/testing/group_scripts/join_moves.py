"""Joins that a correct client sends seldom, or never."""

from random import Random
from typing import Any

from ottla.testing.group_scripts.correct_moves import any_actor, any_member
from ottla.testing.group_scripts.requests import IDENTITIES, join, wrong_identity
from ottla.testing.group_scripts.script_state import ScriptState, Step


def rejoin(rng: Random, state: ScriptState) -> Step | None:
    member = any_member(rng, state)
    if member is None:
        return None
    kind = "join-while-parked" if state.is_parked(member) else "rejoin-leader" if member.leads else "rejoin-same"
    return join(rng, state, member, kind)


def rejoin_changed(rng: Random, state: ScriptState) -> Step | None:
    member = any_member(rng, state)
    if member is None:
        return None
    names = [name for name, _ in member.protocols]
    change = rng.choice(["metadata", "order", "fewer", "more"])
    if change == "metadata":
        member.protocols = [(name, bytes([0, 0, 0, 0, 0, 0, rng.randint(0, 255)])) for name in names]
    elif change == "order":
        member.protocols = member.protocols[::-1]
    elif change == "fewer" and len(names) > 1:
        member.protocols = member.protocols[:-1]
    else:
        # Kafka miscounts a protocol that a member lists twice, up to an internal error, so this is left out.
        extra = next(name for name in (f"extra-{number}" for number in range(len(names) + 1)) if name not in names)
        member.protocols = [*member.protocols, (extra, b"more")]
    return join(rng, state, member, f"rejoin-{change}")


def static_bounce(rng: Random, state: ScriptState) -> Step | None:
    statics = [actor for actor in state.joined() if actor.instance_id]
    if not statics:
        return None
    actor = rng.choice(statics)
    kind = "static-bounce-parked" if state.is_parked(actor) else "static-bounce-leader" if actor.leads else "static-bounce"
    if rng.random() < 0.2:
        actor.protocols = actor.protocols[::-1]
        kind += "-changed"
    # Half of them by the version that can skip the assignment (KIP-814).
    return join(rng, state, actor, kind, member_id="", lowest=rng.choice([5, 9]))


def join_wrong(rng: Random, state: ScriptState) -> Step | None:
    actor = any_actor(rng, state)
    what = rng.choice(IDENTITIES[1:])
    if what == "empty-id" or state.is_parked(actor):
        return None
    wrong = wrong_identity(rng, state, actor, what)
    if wrong is None or (not actor.member_id and what in ("wrong-instance", "other-group", "no-instance")):
        return None
    return join(rng, state, actor, f"join-{what}", **wrong).without_actor()


def join_invalid(rng: Random, state: ScriptState) -> Step | None:
    """Joins that the coordinator refuses; no member learns from the response."""
    actor = any_actor(rng, state)
    variants: dict[str, dict[str, Any]] = {
        "session-low": {"session_timeout": rng.choice([0, 1, 50, -5])},
        "session-high": {"session_timeout": 1_800_001},
        "other-type": {"protocol_type": "streams-to-be"},
        "disjoint": {"protocols": [{"name": "unsupported-by-others", "metadata": b""}]},
        "no-protocols": {"protocols": []},
        "empty-type": {"protocol_type": ""},
    }
    what = rng.choice(list(variants))
    if what in ("other-type", "disjoint") and not state.description.members:
        return None  # the first member of a group may have any protocol
    member_id = rng.choice([actor.member_id, ""])
    return join(rng, state, actor, f"join-{what}", member_id=member_id, **variants[what]).without_actor()


def pending_as_static(rng: Random, state: ScriptState) -> Step | None:
    pending = [
        actor for actor in state.actors if actor.member_id and actor.member_id not in state.description.members and not actor.instance_id
    ]
    if not pending:
        return None
    return join(rng, state, rng.choice(pending), "join-pending-as-static", lowest=5, group_instance_id="late-static").without_actor()
