"""`ottla assign`: what each assignor makes of a group's state, and what would move.

A state is JSON, or a described group with its topics:

    {"topics": {"orders": 6, "payments": {"partitions": 2, "racks": [["a"], ["b"]]}},
     "members": [{"member_id": "c1", "topics": ["orders"], "instance_id": "i1", "rack": "a", "owned": {"orders": [0]}, "generation": 3}]}

Of a member only `member_id` and `topics` are needed. Outcomes are text of at most 80 columns, or JSON.
"""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from ottla.cli.clusters import CommandFailed, client_settings, named, of_error
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, DescribedMember, DescribedTopic, Failure
from ottla.client.errors import ClientError
from ottla.groups.assignors import Assignment, Assignor, Racks, Subscriber, find_assignor
from ottla.groups.assignors._checks import checked_assignment
from ottla.groups.assignors._legacy import LEGACY_ASSIGNORS
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NO_GENERATION, parse_subscription
from ottla.text import printable

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
    members = tuple(_read_member(at, member) for at, member in enumerate(_list(found.get("members"), "members")))
    ids = [member.member_id for member in members]
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
    return {"topics": topics, "members": [_member_document(member) for member in state.members]}


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


def _read_member(at: int, value: object) -> Subscriber:
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
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError(f"{what}: write lists of partition numbers")
    return tuple(sorted(set(numbers)))


def read_group_state(admin: AdminClient, group_id: str) -> State:
    """The group as it is now. Raises CommandFailed where it has no members whose subscriptions are known, and the client's errors."""
    found = admin.describe_groups([group_id])[group_id]
    if isinstance(found, Failure):
        raise CommandFailed(named(found))
    if not found.members:
        raise CommandFailed(f"the group {group_id} has no members: give them in a file (--file)")
    members = tuple(_subscriber(found, each) for each in found.members)
    described = admin.describe_topics(sorted({topic for member in members for topic in member.topics}))
    topics = {name: item for name, item in described.items() if isinstance(item, DescribedTopic)}
    racks = {
        name: tuple(each.racks.get(number, frozenset()) for number in range(len(each.leaders)))
        for name, each in topics.items()
        if each.racks
    }
    return State(members, {name: len(each.leaders) for name, each in topics.items()}, racks)


def _subscriber(group: DescribedGroup, member: DescribedMember) -> Subscriber:
    owned = {topic: numbers for topic, numbers in member.partitions.items() if numbers}
    topics, rack = frozenset(member.topics), member.rack
    if group.kind != "consumer":
        topics, rack = _classic_subscription(group, member)
    return Subscriber(
        member_id=member.member_id,
        topics=topics.union(owned),  # a regular expression's topics are known by what is assigned
        instance_id=member.instance_id,
        owned=owned,
        generation=0 if owned else NO_GENERATION,
        rack=rack,
    )


def _classic_subscription(group: DescribedGroup, member: DescribedMember) -> tuple[frozenset[str], str | None]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise CommandFailed(f"the group {group.group_id} is no consumer group: its protocol type is {group.protocol_type!r}")
    if not member.subscription_bytes:
        raise CommandFailed(
            f"the group {group.group_id} is in state {group.state}: subscriptions are known when it is Stable, so try again"
        )
    try:
        subscription = parse_subscription(member.subscription_bytes)
    except PeerError as error:
        raise CommandFailed(f"the subscription of {member.member_id} is not one of Kafka's consumer protocol: {error}") from error
    return frozenset(subscription.topics), subscription.rack


REBALANCES_MAX: Final = 10
"""A cooperative assignor needs two; one that goes on moving partitions is stopped."""


class Move(NamedTuple):
    """A partition that changes its owner."""

    topic: str
    partition: int
    giver: str
    taker: str


@dataclass(frozen=True, slots=True)
class AssignorOutcome:
    """`assignment` is complete after `rebalances`. `owned`: partitions that had an owner; `stopped` of them are not read meanwhile."""

    assignor: Assignor
    assignment: Assignment
    rebalances: int
    moves: tuple[Move, ...]
    owned: int

    @property
    def stopped(self) -> int:
        """Cooperative members go on reading what does not move."""
        return len(self.moves) if self.assignor.is_cooperative else self.owned

    @property
    def loads(self) -> list[int]:
        """How many partitions each member has."""
        return [sum(map(len, of.values())) for of in self.assignment.values()]


def outcome(assignor: Assignor, state: State, before: Mapping[str, Mapping[str, Sequence[int]]]) -> AssignorOutcome:
    """The assignment of a state whose partitions had the owners of `before`, some of which may be gone."""
    assignment, rebalances = complete_assignment(assignor, state)
    owners = {(topic, number): member for member, topic, number in _each(before) if number < state.partitions.get(topic, 0)}
    moves = [
        Move(topic, number, owners[topic, number], member)
        for member, topic, number in _each(assignment)
        if owners.get((topic, number), member) != member
    ]
    return AssignorOutcome(assignor, assignment, rebalances, tuple(sorted(moves)), len(owners))


def complete_assignment(assignor: Assignor, state: State) -> tuple[Assignment, int]:
    """The assignment after as many rebalances as the assignor needs, and how many those are. Raises AssignorError."""
    members = state.members
    assignment = checked_assignment(assignor, members, state.partitions, state.racks)
    rebalances = 1
    while assignor.is_cooperative and _revokes(members, assignment) and rebalances < REBALANCES_MAX:
        members = with_ownership(members, assignment)
        assignment = checked_assignment(assignor, members, state.partitions, state.racks)
        rebalances += 1
    return assignment, rebalances


def with_ownership(members: Sequence[Subscriber], owned: Assignment) -> tuple[Subscriber, ...]:
    """The members with what an assignment gave them; a member that it does not know owns nothing."""
    generation = 1 + max((member.generation for member in members), default=0)
    return tuple(replace(member, owned=owned.get(member.member_id, {}), generation=generation) for member in members)


def _revokes(members: Sequence[Subscriber], assignment: Assignment) -> bool:
    """Whether a member has to give something up, after which it joins again."""
    return any(
        not set(numbers) <= set(assignment.get(member.member_id, {}).get(topic, ()))
        for member in members
        for topic, numbers in member.owned.items()
    )


def _each(owned: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[tuple[str, str, int]]:
    return ((member, topic, number) for member, of in owned.items() for topic, numbers in of.items() for number in numbers)


WIDTH: Final = 80
NAME_WIDTH_MAX: Final = 32
MOVES_MAX: Final = 20
"""Moves that are listed for each assignor; more are counted."""


def text(state: State, outcomes: Sequence[AssignorOutcome]) -> Iterator[str]:
    """The lines of a report."""
    count = sum(state.partitions.values())
    yield f"{_count(len(state.members), 'member')}, {_count(len(state.partitions), 'topic')}, {_count(count, 'partition')}."
    names = {member.member_id: _short(member.instance_id or member.member_id) for member in state.members}
    width = max([len("MEMBER"), *map(len, names.values())])
    for outcome in outcomes:
        yield ""
        yield from textwrap.wrap(f"{outcome.assignor.name}: {_summary(outcome)}", WIDTH)
        yield f"  {'MEMBER':{width}}  PARTITIONS  ASSIGNED"
        for member_id, owned in outcome.assignment.items():
            yield from _member_lines(names.get(member_id) or _short(member_id), owned, width)
        for move in outcome.moves[:MOVES_MAX]:
            giver, taker = (names.get(each) or _short(each) for each in (move.giver, move.taker))
            change = f"{printable(move.topic)}-{move.partition}: {giver} -> {taker}"
            yield from textwrap.wrap(change, WIDTH, initial_indent="  ", subsequent_indent="    ")
        if len(outcome.moves) > MOVES_MAX:
            yield f"  and {len(outcome.moves) - MOVES_MAX} more moves"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: 0-3,5."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _summary(outcome: AssignorOutcome) -> str:
    loads = outcome.loads
    most, least = max(loads, default=0), min(loads, default=0)
    parts = [f"{most} partitions each" if most == least else f"{least} to {most} partitions each"]
    if outcome.owned:
        parts.append(f"{len(outcome.moves)} of {outcome.owned} move")
        parts.append(f"{outcome.stopped} stop meanwhile")
    if outcome.rebalances > 1:
        parts.append(f"{outcome.rebalances} rebalances")
    return ", ".join(parts)


def _member_lines(name: str, owned: Mapping[str, Sequence[int]], width: int) -> Iterator[str]:
    shares = ", ".join(f"{printable(topic)} {ranges(numbers)}" for topic, numbers in owned.items()) or "-"
    head = f"  {name:{width}}  {sum(map(len, owned.values())):10}  "
    # A range of numbers is broken only where it is longer than a line.
    lines = textwrap.wrap(shares, WIDTH - len(head), break_on_hyphens=False)
    yield from (f"{head if not at else ' ' * len(head)}{line}" for at, line in enumerate(lines))


def _short(name: str) -> str:
    """A name as it fits into its column: client ids stand at the beginning, what differs at the end."""
    shown = printable(name)
    half = NAME_WIDTH_MAX // 2 - 1
    return shown if len(shown) <= NAME_WIDTH_MAX else f"{shown[:half]}..{shown[-half:]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


OK: Final = 0
FAILED: Final = 1
CLIENT_ID: Final = "ottla-assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignOptions:
    """The states (a group first, then files; two at most) and the names of the assignors."""

    group: str | None = None
    bootstrap_server: str | None = None
    command_config: str | None = None
    files: tuple[Path, ...] = ()
    assignors: Sequence[str] = ()
    from_assignment: bool = False
    as_json: bool = False


def run(options: AssignOptions, *, out: TextIO, err: TextIO) -> int:
    """Print the report; returns the exit status."""
    try:
        states = list(_states(options))
        outcomes = [_outcome(_named(name), states, from_assignment=options.from_assignment) for name in options.assignors]
    except (CommandFailed, ValueError) as error:
        err.write(f"Error: {printable(str(error))}\n")
        return FAILED
    except (ClientError, PeerError) as error:
        err.write(f"Error: {printable(of_error(error))}\n")
        return FAILED
    if options.as_json:
        document = {"state": state_document(states[-1]), "assignors": [_document(each) for each in outcomes]}
        out.write(json.dumps(document, indent=2) + "\n")
    else:
        out.writelines(f"{line}\n" for line in text(states[-1], outcomes))
    return OK


def _states(options: AssignOptions) -> Iterable[State]:
    if options.group is not None and options.bootstrap_server is not None:
        settings = client_settings(options.bootstrap_server, options.command_config, client_id=CLIENT_ID)
        with AdminClient(settings) as admin:
            yield read_group_state(admin, options.group)
    for path in options.files:
        try:
            yield parse_state(path.read_text())
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{path}: {error}") from error


def _named(name: str) -> Assignor:
    return LEGACY_ASSIGNORS.get(name) or find_assignor(name)


def _outcome(assignor: Assignor, states: Sequence[State], *, from_assignment: bool) -> AssignorOutcome:
    """Of the last state, whose members own what the assignor, or with `from_assignment` the present assignment, gave them in the first."""
    first, last = states[0], states[-1]
    before: Mapping[str, Mapping[str, Sequence[int]]] = {member.member_id: member.owned for member in first.members}
    if len(states) == 1:
        return outcome(assignor, last, before)
    if not from_assignment:
        before, _ = complete_assignment(assignor, first)
    owned = {member_id: {topic: list(numbers) for topic, numbers in of.items()} for member_id, of in before.items()}
    return outcome(assignor, replace(last, members=with_ownership(last.members, owned)), before)


def _document(found: AssignorOutcome) -> dict[str, Any]:
    moves = [{"topic": each.topic, "partition": each.partition, "from": each.giver, "to": each.taker} for each in found.moves]
    return {
        "name": found.assignor.name,
        "is_cooperative": found.assignor.is_cooperative,
        "assignment": found.assignment,
        "rebalances": found.rebalances,
        "owned": found.owned,
        "stopped": found.stopped,
        "moves": moves,
    }
