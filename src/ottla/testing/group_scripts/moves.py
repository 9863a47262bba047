"""The moves of a scripted group: what a good client would do next, and everything else that can be sent, with how often it is tried.

A move makes a step from the view, or None where it cannot be made now. It decides nothing about brokers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.testing.group_scripts.requests import (
    IDENTITIES,
    METADATA_BYTES_MAX,
    STRANGER,
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
from ottla.testing.group_scripts.view import Actor, Need, Step, View

OFFSET_FETCH, FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_TOPICS, DELETE_GROUPS, OFFSET_DELETE = 9, 10, 15, 16, 20, 42, 47
DAY_MS = 86_400_000
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


@dataclass(frozen=True, slots=True)
class Move:
    """One way to go on, and its weight among all."""

    weight: float
    make: Callable[[Random, View], Step | None]


def honest_moves(rng: Random, view: View) -> list[Step]:
    """What well-behaved members would send now; none when all of them wait for answers, or are done."""
    return [step for actor in view.actors if not view.is_parked(actor) and (step := honest_step(rng, view, actor)) is not None]


def honest_step(rng: Random, view: View, actor: Actor) -> Step | None:
    """What this member would send now; None when it has what it wants."""
    if actor.need is Need.JOIN:
        return honest_join(rng, view, actor)
    if actor.need is Need.SYNC:
        return honest_sync(rng, view, actor)
    if view.picture.state != "Stable":
        return heartbeat(rng, view, actor, "heartbeat")
    return None


def honest_join(rng: Random, view: View, actor: Actor, **values: Any) -> Step:
    """JoinGroup: anew, with the id that was handed out, or once more."""
    if actor.instance_id:
        kind = "join-static" if not actor.member_id else "join-static-again"
    elif not actor.member_id:
        kind = "join-new"
    else:
        kind = "join-again" if actor.member_id in view.picture.members else "join-with-id"
    return join(rng, view, actor, kind, **values)


def honest_sync(rng: Random, view: View, actor: Actor) -> Step:
    """SyncGroup: with the plan if the member leads."""
    if not actor.leads:
        return sync(rng, view, actor, "sync-follower", {})
    plan = plan_of(view, actor)
    if rng.random() < 0.1:
        return sync(rng, view, actor, "sync-partial-plan", dict(rng.sample(sorted(plan.items()), len(plan) // 2)))
    return sync(rng, view, actor, "sync-leader", plan)


def plan_of(view: View, leader: Actor) -> dict[str, bytes]:
    """A plan for every member that the group has."""
    return {member_id: f"{member_id} in {leader.generation}".encode() for member_id in sorted({*view.picture.members, leader.member_id})}


# Joins that are not what a client would send


def _any_actor(rng: Random, view: View) -> Actor:
    return rng.choice(view.actors)


def _member(rng: Random, view: View) -> Actor | None:
    joined = view.joined()
    return rng.choice(joined) if joined else None


def _rejoin(rng: Random, view: View) -> Step | None:
    member = _member(rng, view)
    if member is None:
        return None
    kind = "join-while-parked" if view.is_parked(member) else "rejoin-leader" if member.leads else "rejoin-same"
    return join(rng, view, member, kind)


def _rejoin_changed(rng: Random, view: View) -> Step | None:
    member = _member(rng, view)
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
        # Twice the same name is a client's mistake for which Kafka counts wrong, up to an internal error: not asked for.
        extra = next(name for name in (f"extra-{number}" for number in range(len(names) + 1)) if name not in names)
        member.protocols = [*member.protocols, (extra, b"more")]
    return join(rng, view, member, f"rejoin-{change}")


def _static_bounce(rng: Random, view: View) -> Step | None:
    statics = [actor for actor in view.joined() if actor.instance_id]
    if not statics:
        return None
    actor = rng.choice(statics)
    kind = "static-bounce-parked" if view.is_parked(actor) else "static-bounce-leader" if actor.leads else "static-bounce"
    if rng.random() < 0.2:
        actor.protocols = actor.protocols[::-1]
        kind += "-changed"
    # Half of them by the version that can be told to skip the assignment (KIP-814).
    return join(rng, view, actor, kind, member_id="", lowest=rng.choice([5, 9]))


def _join_wrong(rng: Random, view: View) -> Step | None:
    actor = _any_actor(rng, view)
    what = rng.choice(IDENTITIES[1:])
    if what == "empty-id" or view.is_parked(actor):
        return None
    wrong = wrong_identity(rng, view, actor, what)
    if wrong is None or (not actor.member_id and what in ("wrong-instance", "other-group", "no-instance")):
        return None
    return join(rng, view, actor, f"join-{what}", **wrong).unheard()


def _join_odd(rng: Random, view: View) -> Step | None:
    """Joins that no coordinator takes in, whoever sends them; the answer changes nothing that anybody knows."""
    actor = _any_actor(rng, view)
    odd: dict[str, dict[str, Any]] = {
        "session-low": {"session_timeout": rng.choice([0, 1, 50, -5])},
        "session-high": {"session_timeout": 1_800_001},
        "other-type": {"protocol_type": "streams-to-be"},
        "disjoint": {"protocols": [{"name": "nobody-else-has-it", "metadata": b""}]},
        "no-protocols": {"protocols": []},
        "empty-type": {"protocol_type": ""},
    }
    what = rng.choice(list(odd))
    if what in ("other-type", "disjoint") and not view.picture.members:
        return None  # who comes first may say what it likes
    member_id = rng.choice([actor.member_id, ""])
    return join(rng, view, actor, f"join-{what}", member_id=member_id, **odd[what]).unheard()


def _pending_as_static(rng: Random, view: View) -> Step | None:
    asked = [actor for actor in view.actors if actor.member_id and actor.member_id not in view.picture.members and not actor.instance_id]
    if not asked:
        return None
    return join(rng, view, rng.choice(asked), "join-pending-as-static", lowest=5, group_instance_id="late-static").unheard()


# Sync, heartbeat, leave


def _sync_wrong(rng: Random, view: View) -> Step | None:
    actor = _member(rng, view)
    if actor is None:
        return None
    what = rng.choice([*IDENTITIES, "type", "name", "nothing-said", "no-plan", "partial-plan", "strangers-plan", "early", "followers-plan"])
    plan = plan_of(view, actor) if actor.leads else {}
    if what == "type":
        return sync(rng, view, actor, "sync-type", plan, protocol_type="other")
    if what == "name":
        return sync(rng, view, actor, "sync-name", plan, protocol_name="other")
    if what == "nothing-said":
        return sync(rng, view, actor, "sync-nothing-said", plan, protocol_type=None, protocol_name=None)
    if what == "early":
        return sync(rng, view, actor, "sync-whenever", plan)
    if what == "followers-plan":
        return None if actor.leads else sync(rng, view, actor, "sync-followers-plan", plan_of(view, actor))
    if what in ("no-plan", "partial-plan", "strangers-plan"):
        return _odd_plan(rng, view, actor, what, plan)
    wrong = wrong_identity(rng, view, actor, what)
    return None if wrong is None else sync(rng, view, actor, f"sync-{what}", plan, **wrong).unheard()


def _odd_plan(rng: Random, view: View, actor: Actor, what: str, plan: dict[str, bytes]) -> Step | None:
    if not actor.leads or view.is_parked(actor):
        return None
    if what == "no-plan":
        plan = {}
    elif what == "partial-plan":
        plan = dict(rng.sample(sorted(plan.items()), len(plan) // 2))
    else:
        plan |= {STRANGER: b"for a stranger"}
    return sync(rng, view, actor, f"sync-{what}", plan)


def _heartbeat_right(rng: Random, view: View) -> Step | None:
    actor = _member(rng, view)
    return None if actor is None else heartbeat(rng, view, actor, "heartbeat")


def _heartbeat_wrong(rng: Random, view: View) -> Step | None:
    actor = _any_actor(rng, view)
    what = rng.choice(IDENTITIES)
    wrong = wrong_identity(rng, view, actor, what)
    return None if wrong is None else heartbeat(rng, view, actor, f"heartbeat-{what}", **wrong).unheard()


def _leaves_it_open_who_leads(view: View, leaving: list[Actor]) -> bool:
    """Kafka lets any of those who stay lead when the leader goes; two brokers then choose two leaders, and the script ends."""
    return any(actor.leads for actor in leaving) and len(view.picture.members) - len(leaving) > 1


def _leave_right(rng: Random, view: View) -> Step | None:
    actor = _any_actor(rng, view)
    if not actor.member_id or (_leaves_it_open_who_leads(view, [actor]) and rng.random() < 0.8):
        return None
    is_member = actor.member_id in view.picture.members
    return leave(rng, view, actor, "leave-while-parked" if view.is_parked(actor) else "leave" if is_member else "leave-pending")


def _leave_wrong(rng: Random, view: View) -> Step | None:
    actor = _any_actor(rng, view)
    what = rng.choice(IDENTITIES[1:])
    if what == "empty-id" and not actor.instance_id:
        return None
    wrong = wrong_identity(rng, view, actor, what)
    return None if wrong is None else leave(rng, view, actor, f"leave-{what}", **wrong).unheard()


def _leave_many(rng: Random, view: View) -> Step | None:
    members: list[dict[str, Any]] = []
    leaving = rng.sample(view.actors, rng.randint(0, len(view.actors)))
    if _leaves_it_open_who_leads(view, leaving) and rng.random() < 0.8:
        return None
    for actor in leaving:
        by_instance = actor.instance_id is not None and rng.random() < 0.5
        member_id = "" if by_instance else actor.member_id
        instance_id = actor.instance_id if by_instance or rng.random() < 0.5 else None
        members.append({"member_id": member_id, "group_instance_id": instance_id, "reason": rng.choice([None, "removed"])})
    if rng.random() < 0.3:
        members.append({"member_id": STRANGER})
    if members and rng.random() < 0.2:
        members.append(rng.choice(members))
    return leave_many(rng, view, "leave-many" if members else "leave-nobody", members)


# Offsets


def _commit_right(rng: Random, view: View) -> Step | None:
    actor = _member(rng, view)
    return None if actor is None else commit(rng, view, "commit", actor=actor)


def _commit_wrong(rng: Random, view: View) -> Step | None:
    actor = _any_actor(rng, view)
    what = rng.choice(IDENTITIES[:-2])
    wrong = wrong_identity(rng, view, actor, what, "generation_id_or_member_epoch")
    return None if wrong is None else commit(rng, view, f"commit-{what}", actor=actor, **wrong)


def _commit_odd(rng: Random, view: View) -> Step | None:
    what = rng.choice(["anonymous", "simple", "metadata", "retention", "unknown-topic", "unknown-partition", "new-group", "gone-topic"])
    odd: dict[str, dict[str, Any]] = {
        "anonymous": {},
        "simple": {"group": f"{view.group}-simple"},
        "metadata": {"group": f"{view.group}-simple", "metadata": "x" * (METADATA_BYTES_MAX + 1)},
        "retention": {
            "group": rng.choice([view.group, f"{view.group}-simple"]),
            "version": rng.randint(2, 4),
            "retention_time": DAY_MS,
        },
        "unknown-topic": {"topic": "no-such-topic", "version": rng.randint(2, 9)},
        "unknown-partition": {"topic": "flights", "partitions": [0, 99], "group": f"{view.group}-simple"},
        "new-group": {"group": f"{view.group}-none", "generation_id_or_member_epoch": 3, "member_id": STRANGER},
    }
    if what == "gone-topic":
        gone = rng.choice(sorted(view.gone_topics)) if view.gone_topics else None
        return None if gone is None else commit(rng, view, "commit-gone-topic", topic=gone)
    return commit(rng, view, f"commit-{what}", **odd[what])


def _fetch_topics(rng: Random, view: View) -> list[dict[str, Any]] | None:
    if rng.random() < 0.3:
        return None
    known = rng.sample(sorted(view.topics), rng.randint(0, len(view.topics)))
    return [topic_reference(topic) | {"partition_indexes": [0, 1, 9]} for topic in known]


def _fetch(rng: Random, view: View) -> Step:
    groups: list[dict[str, Any]] = [{"group_id": view.group, "topics": _fetch_topics(rng, view)}]
    version = version_of(rng, OFFSET_FETCH)
    if version >= 8:
        for other in rng.sample(["simple", "none"], rng.randint(0, 2)):
            groups.append({"group_id": f"{view.group}-{other}", "topics": _fetch_topics(rng, view)})
        if version == 9 and rng.random() < 0.3:
            groups[0] |= {"member_id": rng.choice([STRANGER, rng.choice(view.actors).member_id]), "member_epoch": 1}
    asked = groups[0]["topics"] if version >= 2 else groups[0]["topics"] or []
    kind = "fetch-many" if len(groups) > 1 else "fetch-all" if asked is None else "fetch"
    values = {"group_id": view.group, "topics": asked, "groups": groups, "require_stable": rng.random() < 0.2}
    return Step(kind=kind, api=OFFSET_FETCH, version=version, values=values)


def _offset_delete(rng: Random, view: View) -> Step:
    group = rng.choice([view.group, view.group, view.group, f"{view.group}-simple", f"{view.group}-none"])
    topics = [
        {"name": topic, "partitions": [{"partition_index": number} for number in rng.choice([[0], [0, 1], [9]])]}
        for topic in rng.sample([*sorted(view.topics), "no-such-topic"], rng.randint(0, 2))
    ]
    return Step(kind="offset-delete", api=OFFSET_DELETE, values={"group_id": group, "topics": topics})


# Administration


def _names(rng: Random, view: View) -> list[str]:
    names = [view.group, f"{view.group}-simple", f"{view.group}-none"]
    return rng.sample(names, rng.randint(1, 3))


def _describe(rng: Random, view: View) -> Step:
    values = {"groups": _names(rng, view), "include_authorized_operations": rng.random() < 0.3}
    return Step(kind="describe", api=DESCRIBE_GROUPS, version=version_of(rng, DESCRIBE_GROUPS), values=values)


def _list(rng: Random, view: View) -> Step:
    states = rng.choice([[], [], rng.sample(STATES, 2), [view.picture.state.lower()], ["Nowhere"]])
    types = rng.choice([[], ["classic"], ["Classic", "share"], ["consumer"]])
    values = {"states_filter": states, "types_filter": types}
    return Step(kind="list", api=LIST_GROUPS, version=version_of(rng, LIST_GROUPS), values=values)


def _find(rng: Random, view: View) -> Step:
    values = {"key": view.group, "key_type": 0, "coordinator_keys": _names(rng, view)}
    return Step(kind="find", api=FIND_COORDINATOR, version=version_of(rng, FIND_COORDINATOR), values=values)


def _delete_groups(rng: Random, view: View) -> Step:
    names = rng.choice([_names(rng, view), [view.group], [f"{view.group}-simple"]])
    return Step(kind="delete-groups", api=DELETE_GROUPS, version=version_of(rng, DELETE_GROUPS), values={"groups_names": names})


def _delete_topic(rng: Random, view: View) -> Step | None:
    own = [topic for topic in view.topics if topic.endswith("-gone")]
    if not own:
        return None
    return Step(kind="delete-topic", api=DELETE_TOPICS, version=5, values={"topic_names": own, "timeout": 5000})


MOVES = (
    Move(3, _rejoin),
    Move(4, _rejoin_changed),
    Move(5, _static_bounce),
    Move(4, _join_wrong),
    Move(3, _join_odd),
    Move(1.5, _pending_as_static),
    Move(9, _sync_wrong),
    Move(2, _heartbeat_right),
    Move(5, _heartbeat_wrong),
    Move(3, _leave_right),
    Move(4, _leave_wrong),
    Move(3, _leave_many),
    Move(6, _commit_right),
    Move(4, _commit_wrong),
    Move(8, _commit_odd),
    Move(6, _fetch),
    Move(4, _offset_delete),
    Move(3, _describe),
    Move(3, _list),
    Move(1, _find),
    Move(2, _delete_groups),
    Move(4, _delete_topic),
)
