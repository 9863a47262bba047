"""Requests of scripted members: right ones, ones with one error, and what a correct client sends next."""

from random import Random
from typing import Any

from trials.group_scripts.script_state import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OUTSIDER,
    SYNC_GROUP,
    Actor,
    Need,
    ScriptState,
    Step,
)

UNKNOWN_MEMBER = "unknown-member"
METADATA_BYTES_MAX = 4096
VERSIONS = {
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    42: (0, 2),
    47: (0, 0),
}
"""The versions that Apache Kafka 4.3 has of each API about groups."""
IDENTITIES = ("generation", "unknown", "old-id", "wrong-instance", "no-instance", "empty-id", "other-group", "empty-group")
"""The ways in which a request's identity can be wrong."""


def version_of(rng: Random, api: int, lowest: int = 0) -> int:
    """Any version of an API, from `lowest` on."""
    first, last = VERSIONS[api]
    return rng.randint(max(first, lowest), last)


def join(rng: Random, state: ScriptState, actor: Actor, kind: str, *, lowest: int = 0, highest: int = 9, **wrong: Any) -> Step:
    """JoinGroup as `actor` would send it, except the fields in `wrong`."""
    version = rng.randint(max(lowest, 5 if actor.instance_id else 0), highest)
    values = {
        "group_id": state.group,
        "session_timeout": actor.session_ms,
        "rebalance_timeout": actor.rebalance_ms,
        "member_id": actor.member_id,
        "group_instance_id": actor.instance_id,
        "protocol_type": state.protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in actor.protocols],
        "reason": rng.choice([None, "", "a reason"]),
    }
    return Step(kind=kind, api=JOIN_GROUP, version=version, values=values | wrong, client_id=actor.client_id, actor=actor.number)


def sync(rng: Random, state: ScriptState, actor: Actor, kind: str, assignments: dict[str, bytes], **wrong: Any) -> Step:
    """SyncGroup as `actor` would send it; `assignments` is empty unless it leads."""
    values = {
        "group_id": state.group,
        "generation_id": actor.generation,
        "member_id": actor.member_id,
        "group_instance_id": actor.instance_id,
        "protocol_type": state.protocol_type,
        "protocol_name": state.description.protocol or actor.protocols[0][0],
        "assignments": [{"member_id": member_id, "assignment": data} for member_id, data in assignments.items()],
    }
    return Step(
        kind=kind,
        api=SYNC_GROUP,
        version=version_of(rng, SYNC_GROUP, 3 if actor.instance_id else 0),
        values=values | wrong,
        client_id=actor.client_id,
        actor=actor.number,
    )


def heartbeat(rng: Random, state: ScriptState, actor: Actor, kind: str, **wrong: Any) -> Step:
    """Heartbeat as `actor` would send it."""
    values = {
        "group_id": state.group,
        "generation_id": actor.generation,
        "member_id": actor.member_id,
        "group_instance_id": actor.instance_id,
    }
    version = version_of(rng, HEARTBEAT, 3 if actor.instance_id else 0)
    return Step(kind=kind, api=HEARTBEAT, version=version, values=values | wrong, client_id=actor.client_id, actor=actor.number)


def leave(rng: Random, state: ScriptState, actor: Actor, kind: str, **wrong: Any) -> Step:
    """LeaveGroup of one member, in any version: up to 2 the request has one member, from 3 on a list."""
    member = {
        "member_id": actor.member_id,
        "group_instance_id": actor.instance_id,
        "reason": rng.choice([None, "the consumer is being closed"]),
    }
    member |= {name: value for name, value in wrong.items() if name in member}
    values = {"group_id": wrong.get("group_id", state.group), "member_id": member["member_id"], "members": [member]}
    version = version_of(rng, LEAVE_GROUP, 3 if member["group_instance_id"] else 0)
    return Step(kind=kind, api=LEAVE_GROUP, version=version, values=values, client_id=actor.client_id, actor=actor.number)


def leave_many(rng: Random, state: ScriptState, kind: str, members: list[dict[str, Any]]) -> Step:
    """LeaveGroup of several members, as an administrator sends it."""
    values = {"group_id": state.group, "members": members}
    return Step(kind=kind, api=LEAVE_GROUP, version=version_of(rng, LEAVE_GROUP, 3), values=values)


def topic_reference(name: str) -> dict[str, str]:
    """A topic by name and, for versions that want one, by a stand-in for its id, which differs between brokers."""
    return {"name": name, "topic_id": f"<id of {name}>"}


def commit(rng: Random, state: ScriptState, kind: str, *, actor: Actor | None = None, group: str | None = None, **wrong: Any) -> Step:
    """OffsetCommit of one to three partitions, by a member or by a client that is not one."""
    topic = wrong.pop("topic", None) or rng.choice(sorted(state.topics))
    count = state.topics.get(topic, 1)
    numbers = wrong.pop("partitions", None) or rng.sample(range(count), rng.randint(1, count))
    metadata = wrong.pop("metadata", rng.choice(["", "", "a note", None, "x" * METADATA_BYTES_MAX]))
    parts = [
        {
            "partition_index": number,
            "committed_offset": rng.randint(0, 1000),
            "committed_leader_epoch": rng.choice([-1, 0, 3]),
            "committed_metadata": metadata,
        }
        for number in numbers
    ]
    values = {
        "group_id": state.group if group is None else group,
        "generation_id_or_member_epoch": -1 if actor is None else actor.generation,
        "member_id": "" if actor is None else actor.member_id,
        "group_instance_id": None if actor is None else actor.instance_id,
        "retention_time": -1,
        "topics": [topic_reference(topic) | {"partitions": parts}],
    }
    version = wrong.pop("version", None) or version_of(rng, OFFSET_COMMIT, 7 if actor and actor.instance_id else 0)
    client_id = OUTSIDER if actor is None else actor.client_id
    return Step(kind=kind, api=OFFSET_COMMIT, version=version, values=values | wrong, client_id=client_id)


def wrong_identity(
    rng: Random, state: ScriptState, actor: Actor, what: str, generation_field: str = "generation_id"
) -> dict[str, Any] | None:
    """The identity fields of a request of `actor` with one error; None where this is not possible."""
    others = [other.instance_id for other in state.actors if other.instance_id and other is not actor]
    if what == "generation":
        return {generation_field: actor.generation + rng.choice([-1, 1])}
    if what == "unknown":
        return {"member_id": UNKNOWN_MEMBER}
    if what == "old-id":
        return {"member_id": rng.choice(actor.old_ids)} if actor.old_ids else None
    if what == "wrong-instance":
        return {"group_instance_id": rng.choice([*others, "no-such-instance"])}
    if what == "no-instance":
        return {"group_instance_id": None} if actor.instance_id else None
    if what == "empty-id":
        return {"member_id": ""}
    return {"group_id": f"{state.group}-none" if what == "other-group" else ""}


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
