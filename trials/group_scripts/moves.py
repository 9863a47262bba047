"""The moves of a script: what clients, administrators and faulty programs may send next, with how often each is chosen."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.protocol.wire.api_keys import ApiKey
from trials.group_scripts.requests import (
    IDENTITIES,
    METADATA_BYTES_MAX,
    UNKNOWN_MEMBER,
    any_actor,
    any_member,
    assignments_of,
    commit,
    heartbeat,
    join,
    leave,
    leave_many,
    sync,
    topic_reference,
    version_of,
    wrong_identity,
)
from trials.group_scripts.script_state import Actor, ScriptState, Step

# --- joins that a correct client sends seldom, or never


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


# --- SyncGroup, Heartbeat and LeaveGroup: right, with a wrong identity, and unusual


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


# --- offsets


DAY_MS = 86_400_000


def commit_right(rng: Random, state: ScriptState) -> Step | None:
    actor = any_member(rng, state)
    return None if actor is None else commit(rng, state, "commit", actor=actor)


def commit_wrong(rng: Random, state: ScriptState) -> Step | None:
    actor = any_actor(rng, state)
    what = rng.choice(IDENTITIES[:-2])
    wrong = wrong_identity(rng, state, actor, what, "generation_id_or_member_epoch")
    return None if wrong is None else commit(rng, state, f"commit-{what}", actor=actor, **wrong)


def commit_unusual(rng: Random, state: ScriptState) -> Step | None:
    what = rng.choice(["anonymous", "simple", "metadata", "retention", "unknown-topic", "unknown-partition", "new-group", "gone-topic"])
    variants: dict[str, dict[str, Any]] = {
        "anonymous": {},
        "simple": {"group": f"{state.group}-simple"},
        "metadata": {"group": f"{state.group}-simple", "metadata": "x" * (METADATA_BYTES_MAX + 1)},
        "retention": {
            "group": rng.choice([state.group, f"{state.group}-simple"]),
            "version": rng.randint(2, 4),
            "retention_time": DAY_MS,
        },
        "unknown-topic": {"topic": "no-such-topic", "version": rng.randint(2, 9)},
        "unknown-partition": {"topic": "flights", "partitions": [0, 99], "group": f"{state.group}-simple"},
        "new-group": {"group": f"{state.group}-none", "generation_id_or_member_epoch": 3, "member_id": UNKNOWN_MEMBER},
    }
    if what == "gone-topic":
        gone = rng.choice(sorted(state.gone_topics)) if state.gone_topics else None
        return None if gone is None else commit(rng, state, "commit-gone-topic", topic=gone)
    return commit(rng, state, f"commit-{what}", **variants[what])


def _fetch_topics(rng: Random, state: ScriptState) -> list[dict[str, Any]] | None:
    if rng.random() < 0.3:
        return None
    known = rng.sample(sorted(state.topics), rng.randint(0, len(state.topics)))
    return [topic_reference(topic) | {"partition_indexes": [0, 1, 9]} for topic in known]


def fetch(rng: Random, state: ScriptState) -> Step:
    groups: list[dict[str, Any]] = [{"group_id": state.group, "topics": _fetch_topics(rng, state)}]
    version = version_of(rng, ApiKey.OFFSET_FETCH)
    if version >= 8:
        for other in rng.sample(["simple", "none"], rng.randint(0, 2)):
            groups.append({"group_id": f"{state.group}-{other}", "topics": _fetch_topics(rng, state)})
        if version == 9 and rng.random() < 0.3:
            groups[0] |= {"member_id": rng.choice([UNKNOWN_MEMBER, rng.choice(state.actors).member_id]), "member_epoch": 1}
    asked = groups[0]["topics"] if version >= 2 else groups[0]["topics"] or []
    kind = "fetch-many" if len(groups) > 1 else "fetch-all" if asked is None else "fetch"
    values = {"group_id": state.group, "topics": asked, "groups": groups, "require_stable": rng.random() < 0.2}
    return Step(kind=kind, api=ApiKey.OFFSET_FETCH, version=version, values=values)


def offset_delete(rng: Random, state: ScriptState) -> Step:
    group = rng.choice([state.group, state.group, state.group, f"{state.group}-simple", f"{state.group}-none"])
    topics = [
        {"name": topic, "partitions": [{"partition_index": number} for number in rng.choice([[0], [0, 1], [9]])]}
        for topic in rng.sample([*sorted(state.topics), "no-such-topic"], rng.randint(0, 2))
    ]
    return Step(kind="offset-delete", api=ApiKey.OFFSET_DELETE, values={"group_id": group, "topics": topics})


# --- what an administrator asks for


STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


def _names(rng: Random, state: ScriptState) -> list[str]:
    names = [state.group, f"{state.group}-simple", f"{state.group}-none"]
    return rng.sample(names, rng.randint(1, 3))


def describe_groups(rng: Random, state: ScriptState) -> Step:
    values = {"groups": _names(rng, state), "include_authorized_operations": rng.random() < 0.3}
    return Step(kind="describe", api=ApiKey.DESCRIBE_GROUPS, version=version_of(rng, ApiKey.DESCRIBE_GROUPS), values=values)


def list_groups(rng: Random, state: ScriptState) -> Step:
    states = rng.choice([[], [], rng.sample(STATES, 2), [state.description.state.lower()], ["Nowhere"]])
    types = rng.choice([[], ["classic"], ["Classic", "share"], ["consumer"]])
    values = {"states_filter": states, "types_filter": types}
    return Step(kind="list", api=ApiKey.LIST_GROUPS, version=version_of(rng, ApiKey.LIST_GROUPS), values=values)


def find_coordinator(rng: Random, state: ScriptState) -> Step:
    values = {"key": state.group, "key_type": 0, "coordinator_keys": _names(rng, state)}
    return Step(kind="find", api=ApiKey.FIND_COORDINATOR, version=version_of(rng, ApiKey.FIND_COORDINATOR), values=values)


def delete_groups(rng: Random, state: ScriptState) -> Step:
    names = rng.choice([_names(rng, state), [state.group], [f"{state.group}-simple"]])
    return Step(
        kind="delete-groups", api=ApiKey.DELETE_GROUPS, version=version_of(rng, ApiKey.DELETE_GROUPS), values={"groups_names": names}
    )


def delete_topic(rng: Random, state: ScriptState) -> Step | None:
    own = [topic for topic in state.topics if topic.endswith("-gone")]
    if not own:
        return None
    return Step(kind="delete-topic", api=ApiKey.DELETE_TOPICS, version=5, values={"topic_names": own, "timeout": 5000})


@dataclass(frozen=True, slots=True)
class Move:
    """One kind of next step, and its weight."""

    weight: float
    make: Callable[[Random, ScriptState], Step | None]


MOVES = (
    Move(3, rejoin),
    Move(4, rejoin_changed),
    Move(5, static_bounce),
    Move(4, join_wrong),
    Move(3, join_invalid),
    Move(1.5, pending_as_static),
    Move(9, sync_wrong),
    Move(2, heartbeat_right),
    Move(5, heartbeat_wrong),
    Move(3, leave_right),
    Move(4, leave_wrong),
    Move(3, leave_several),
    Move(6, commit_right),
    Move(4, commit_wrong),
    Move(8, commit_unusual),
    Move(6, fetch),
    Move(4, offset_delete),
    Move(3, describe_groups),
    Move(3, list_groups),
    Move(1, find_coordinator),
    Move(2, delete_groups),
    Move(4, delete_topic),
)
