"""Commits, fetches and deletions of offsets."""

from random import Random
from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.correct_moves import any_actor, any_member
from ottla.testing.group_scripts.requests import (
    IDENTITIES,
    METADATA_BYTES_MAX,
    UNKNOWN_MEMBER,
    commit,
    topic_reference,
    version_of,
    wrong_identity,
)
from ottla.testing.group_scripts.script_state import ScriptState, Step

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
