"""A group as assignors see it, as JSON: topics with their partitions, members with their subscriptions and what they own.

    {"topics": {"orders": 6, "payments": {"partitions": 2, "racks": [["a"], ["b"]]}},
     "members": [{"member_id": "c1", "topics": ["orders"], "instance_id": "i1", "rack": "a", "owned": {"orders": [0]}, "generation": 3}]}

Of a member only `member_id` and `topics` are needed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.core.assignors import Racks, Subscriber
from ottla.core.wire.consumer_protocol import NO_GENERATION

PARTITIONS_MAX: Final = 1_000_000
"""Of all topics together: more take minutes to assign."""


@dataclass(frozen=True, slots=True)
class State:
    """Members, the partition count of each topic, and the racks of replicas."""

    members: tuple[Subscriber, ...]
    partitions: Mapping[str, int]
    racks: Racks = field(default_factory=dict)


def parse_state(text: str) -> State:
    """A state from JSON. Raises ValueError that says what is wrong."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    found = _object(document, "the file")
    found = _object(found["state"], "state") if "state" in found else found
    topics = {name: _topic(name, of) for name, of in _object(found.get("topics"), "topics").items()}
    if sum(count for count, _ in topics.values()) > PARTITIONS_MAX:
        raise ValueError(f"topics: more than {PARTITIONS_MAX} partitions")
    members = tuple(_member(at, each) for at, each in enumerate(_list(found.get("members"), "members")))
    ids = [each.member_id for each in members]
    twice = next((each for each in ids if ids.count(each) > 1), None) if len(set(ids)) < len(ids) else None
    if twice is not None:
        raise ValueError(f"members: {twice!r} is there twice")
    racks = {name: racks for name, (_, racks) in topics.items() if racks}
    return State(members, {name: count for name, (count, _) in topics.items()}, racks)


def state_document(state: State) -> dict[str, Any]:
    """The same as an object that `parse_state` reads."""
    topics: dict[str, Any] = {
        name: {"partitions": count, "racks": [sorted(racks) for racks in state.racks[name]]} if name in state.racks else count
        for name, count in state.partitions.items()
    }
    return {"topics": topics, "members": [_member_document(each) for each in state.members]}


def _member_document(member: Subscriber) -> dict[str, Any]:
    known = {"instance_id": member.instance_id, "rack": member.rack}
    found: dict[str, Any] = {"member_id": member.member_id, "topics": sorted(member.topics)}
    found |= {name: value for name, value in known.items() if value is not None}
    if member.owned:
        found |= {"owned": {topic: list(numbers) for topic, numbers in member.owned.items()}, "generation": member.generation}
    return found


def _topic(name: str, of: object) -> tuple[int, tuple[frozenset[str], ...]]:
    count = of if isinstance(of, int) else _object(of, f"topics: {name}").get("partitions")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= PARTITIONS_MAX:
        raise ValueError(f"topics: {name}: write its number of partitions")
    racks = () if isinstance(of, int) else _list(_object(of, name).get("racks", []), f"topics: {name}: racks")
    if len(racks) not in (0, count):
        raise ValueError(f"topics: {name}: racks of {len(racks)} partitions, but it has {count}")
    return count, tuple(frozenset(_texts(each, f"topics: {name}: racks")) for each in racks)


def _member(at: int, value: object) -> Subscriber:
    found = _object(value, f"members[{at}]")
    member_id = found.get("member_id")
    if not isinstance(member_id, str):
        raise ValueError(f"members[{at}]: has no member_id")
    what = f"member {member_id}"
    unknown = found.keys() - {"member_id", "topics", "instance_id", "rack", "owned", "generation"}
    if unknown:
        raise ValueError(f"{what}: unknown: {', '.join(sorted(unknown))}")
    owned = {topic: _numbers(of, f"{what}: owned") for topic, of in _object(found.get("owned", {}), f"{what}: owned").items()}
    generation = found.get("generation", 0 if owned else NO_GENERATION)
    texts = {name: found.get(name) for name in ("instance_id", "rack")}
    if not isinstance(generation, int) or not all(text is None or isinstance(text, str) for text in texts.values()):
        raise ValueError(f"{what}: generation is a number, instance_id and rack are texts")
    return Subscriber(
        member_id=member_id,
        topics=frozenset(_texts(found.get("topics"), f"{what}: topics")),
        owned=owned,
        generation=generation,
        instance_id=texts["instance_id"],
        rack=texts["rack"],
    )


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: write an object")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what}: write a list")
    return value


def _texts(value: object, what: str) -> list[str]:
    texts = _list(value, what)
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{what}: write a list of texts")
    return texts


def _numbers(value: object, what: str) -> tuple[int, ...]:
    numbers = _list(value, what)
    if not all(isinstance(each, int) and each >= 0 for each in numbers):
        raise ValueError(f"{what}: write lists of partition numbers")
    return tuple(sorted(set(numbers)))
