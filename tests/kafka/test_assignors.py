"""Our assignors beside Apache Kafka's own on 2,000 random groups: equal for range and roundrobin; for the sticky ones counts at least as
even, and no more moves where they are as even.

A small Java program (tests/java/Assignors.java) gives Kafka's assignments, many at once, without a running Kafka; skipped where Maven or a
JDK is missing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.cli.processes import ToolMissing
from ottla.groups.assignors import Assignment, Subscriber, assignors
from ottla.groups.assignors._owned import claimed_partitions, decode_generation, decode_sticky, encode_sticky
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import Partitions, parse_subscription
from tests.support.processes import JavaProgram, compile_java

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent.parent / "java" / "Assignors.java"
SEED, GROUPS = 20, 2_000
RACKS = ("a", "b", "c")
ASSIGNORS = assignors()
JAVAS_GENERATION = 7

JAVA_FAILS_MAX = GROUPS // 50
"""Where members claim partitions of other generations or topics, Kafka 4.3's sticky assignors sometimes raise NullPointerException, or
assign partitions of topics that a member does not subscribe to."""

Ask = Callable[..., list[dict[str, Any]]]


@dataclass(frozen=True)
class Group:
    """A group before a rebalance: its members, and the racks of each partition's replicas by topic."""

    members: tuple[Subscriber, ...]
    racks: Mapping[str, tuple[frozenset[str], ...]]

    @property
    def counts(self) -> dict[str, int]:
        return {topic: len(racks) for topic, racks in self.racks.items()}

    @property
    def is_uniform(self) -> bool:
        return len({each.topics for each in self.members}) == 1

    def former_owners(self) -> dict[TopicPartition, str]:
        """The owner of each partition that may stay where it was."""
        topics = {each.member_id: each.topics for each in self.members}
        return {
            partition: owner
            for partition, owner in claimed_partitions(self.members).items()
            if owner is not None and partition.topic in topics[owner] and partition.partition < self.counts.get(partition.topic, 0)
        }


@pytest.fixture(scope="module")
def ask(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """`ask(groups, assignor)` gives Apache Kafka's answers, with `gives_bytes` the bytes of user data and subscriptions, too."""
    directory = tmp_path_factory.mktemp("assignors")
    try:
        class_path = compile_java(SOURCE, reference.class_path(), directory)
    except ToolMissing as missing:
        pytest.skip(str(missing))
    # Kafka logs each claim that it does not accept.
    quiet = ["-Dorg.apache.logging.log4j.level=OFF"]
    with JavaProgram("Assignors", class_path, error_path=directory / "errors", options=quiet) as program:

        def ask(groups: Sequence[Group], assignor: str, *, gives_bytes: bool = False) -> list[dict[str, Any]]:
            since = len(program.events)
            program.send(json.dumps([case(group, assignor) | {"bytes": gives_bytes} for group in groups]))
            return list(program.wait_for(lambda seen: seen and seen[-1], "answers", since=since, seconds=120)["answers"])

        yield ask


def case(group: Group, assignor: str) -> dict[str, Any]:
    """A group as a leader's assignor gets it from the members' subscriptions. An eager member has revoked everything when it joins."""
    ours = ASSIGNORS[assignor]
    topics = {topic: [sorted(racks) for racks in of] for topic, of in group.racks.items()}
    members = [
        {
            "id": each.member_id,
            "topics": sorted(each.topics),
            "instance": each.instance_id,
            "rack": each.rack,
            "owned": {topic: list(numbers) for topic, numbers in each.owned.items()} if ours.is_cooperative else {},
            "generation": each.generation,
            "userData": None if (data := ours.user_data(each.owned or None, each.generation)) is None else data.hex(),
        }
        for each in group.members
    ]
    return {"assignor": assignor, "topics": topics, "members": members, "runs": 1}


def random_group(rng: Random, *, has_racks: bool) -> Group:
    """Up to 12 members and 6 topics; half of the groups had an assignment, which may be stale, doubled, or of other topics."""
    names = [f"t{number}" for number in range(rng.randint(1, 6))]
    racks = {name: tuple(_racks(rng, has_racks) for _ in range(rng.choice((0, 1, 3, 3, 6, rng.randint(0, 20))))) for name in names}
    if has_racks and rng.random() < 0.3:
        racks = dict.fromkeys(racks, next(iter(racks.values())))  # topics with the same partitions are divided together
    is_uniform = rng.random() < 0.4
    topics = frozenset(rng.sample(names, rng.randint(1, len(names))))
    members = []
    for number in range(rng.randint(1, 12)):
        own = topics if is_uniform else frozenset(rng.sample(names, rng.randint(1, len(names))))
        instance_id = f"i{rng.randint(0, 9)}{number}" if rng.random() < 0.3 else None
        rack = rng.choice((*RACKS, "d", None)) if has_racks else None
        members.append(
            Subscriber(member_id=f"m{rng.randint(0, 99)}-{number}", topics=own | {"unknown"}, instance_id=instance_id, rack=rack)
        )
    return _with_past(rng, Group(tuple(members), racks)) if rng.random() < 0.7 else Group(tuple(members), racks)


def _racks(rng: Random, has_racks: bool) -> frozenset[str]:
    return frozenset(rng.sample(RACKS, rng.randint(1, 2))) if has_racks else frozenset()


def _with_past(rng: Random, group: Group) -> Group:
    """The group some time after an assignment: members left and joined, some claims are old or doubled, some subscriptions changed."""
    before = ASSIGNORS[rng.choice(("sticky", "range", "roundrobin"))].assign(group.members, group.counts)
    members = []
    for member in group.members:
        chance = rng.random()
        if chance < 0.15 and len(group.members) > 1:
            continue  # it left
        owned = {topic: tuple(numbers) for topic, numbers in before[member.member_id].items()}
        if chance < 0.25:
            owned = {}  # it is new
        elif chance < 0.4:
            other = before[rng.choice(group.members).member_id]
            owned |= {topic: tuple(sorted({*owned.get(topic, ()), *numbers})) for topic, numbers in other.items()}
        generation = rng.choice((3, 5, 5, 5, 5, 5, 5)) if owned else -1
        members.append(replace(member, owned=owned, generation=generation))
    return replace(group, members=tuple(members or group.members))


@cache
def groups() -> Sequence[Group]:
    """Every other group has racks."""
    rng = Random(SEED)
    return [random_group(rng, has_racks=number % 2 == 1) for number in range(GROUPS)]


def without_racks(groups: Sequence[Group]) -> list[Group]:
    """For the sticky assignors, where Kafka's look at racks and ours do not."""
    return [
        Group(
            tuple(replace(each, rack=None) for each in group.members),
            {topic: (frozenset(),) * len(of) for topic, of in group.racks.items()},
        )
        for group in groups
    ]


def imbalance(assignment: Mapping[str, Partitions]) -> int:
    """Sums of squares: the smaller, the more even."""
    return sum(sum(map(len, of.values())) ** 2 for of in assignment.values())


def moves(group: Group, assignment: Mapping[str, Partitions]) -> int:
    """Partitions that a member may have kept and does not have."""
    return sum(partition.partition not in assignment[owner].get(partition.topic, ()) for partition, owner in group.former_owners().items())


@pytest.mark.conformance(
    "RangeAssignorTest.testRackAwareAssignmentWithUniformSubscription",
    "RangeAssignorTest.testRackAwareAssignmentWithNonEqualSubscription",
    "RangeAssignorTest.testRackAwareAssignmentWithUniformPartitions",
    "RangeAssignorTest.testRackAwareAssignmentWithUniformPartitionsNonEqualSubscription",
    "RangeAssignorTest.testRackAwareAssignmentWithCoPartitioning",
    "RangeAssignorTest.testRackAwareStaticMemberRangeAssignmentPersistentAfterMemberIdChanges",
)
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_assignments_are_equal(ask: Ask, assignor: str) -> None:
    made = groups()
    for group, answer in zip(made, ask(made, assignor), strict=True):
        assert ASSIGNORS[assignor].assign(group.members, group.counts, group.racks) == answer["assignment"], group


def is_valid(group: Group, answer: dict[str, Any]) -> bool:
    """Whether Kafka's assignor has assigned what members subscribe to."""
    return "failed" not in answer and all(answer["assignment"][each.member_id].keys() <= each.topics for each in group.members)


def check_quality(group: Group, ours: Mapping[str, Partitions], theirs: Mapping[str, Partitions]) -> None:
    """Ours is at least as even (as even with equal subscriptions), and where it is as even it moves no more."""
    even, moved = (imbalance(ours), imbalance(theirs)), (moves(group, ours), moves(group, theirs))
    assert even[0] == even[1] if group.is_uniform else even[0] <= even[1], (even, group, ours, theirs)
    assert moved[0] <= moved[1] or even[0] < even[1], (moved, group, ours, theirs)


def test_sticky_is_as_even_with_no_more_moves(ask: Ask) -> None:
    made = without_racks(groups())
    answers = [(group, answer["assignment"]) for group, answer in zip(made, ask(made, "sticky"), strict=True) if is_valid(group, answer)]
    for group, theirs in answers:
        check_quality(group, ASSIGNORS["sticky"].assign(group.members, group.counts), theirs)
    assert len(answers) > GROUPS - JAVA_FAILS_MAX


def test_cooperative_sticky_comes_to_the_same_in_several_rebalances(ask: Ask) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    ours = theirs = made = without_racks(groups())
    for _ in range(2):
        our_answers = [assignor.assign(each.members, each.counts) for each in ours]
        their_answers = ask(theirs, assignor.name)
        for group, answer in zip(ours, our_answers, strict=True):
            assert_nothing_is_taken_from_an_owner(group, answer)
        valid = [number for number, answer in enumerate(their_answers) if is_valid(theirs[number], answer)]
        made = [made[number] for number in valid]
        ours = [rejoined(ours[number], our_answers[number]) for number in valid]
        theirs = [rejoined(theirs[number], their_answers[number]["assignment"]) for number in valid]
    assert len(made) > GROUPS - JAVA_FAILS_MAX
    for group, our_last, their_last in zip(made, ours, theirs, strict=True):
        assert count(our_last) == count(their_last), (group, our_last, their_last)
        check_quality(group, owned(our_last), owned(their_last))


def owned(group: Group) -> dict[str, Partitions]:
    return {each.member_id: each.owned for each in group.members}


def count(group: Group) -> int:
    return sum(len(numbers) for each in group.members for numbers in each.owned.values())


def assert_nothing_is_taken_from_an_owner(group: Group, answer: Assignment) -> None:
    owners = group.former_owners()
    for member_id, of in answer.items():
        for topic, numbers in of.items():
            assert all(owners.get(TopicPartition(topic, number), member_id) == member_id for number in numbers), (group, answer)


def rejoined(group: Group, answer: Mapping[str, Partitions]) -> Group:
    """The group when all members have joined again, with what they were given."""
    latest = max(each.generation for each in group.members)
    return replace(group, members=tuple(replace(each, owned=answer[each.member_id], generation=latest + 1) for each in group.members))


def test_user_data_of_java_is_read(ask: Ask) -> None:
    made = without_racks(groups()[:100])
    for group, answer in zip(made, ask(made, "sticky", gives_bytes=True), strict=True):
        for member in group.members:
            data = bytes.fromhex(answer["userData"][member.member_id])
            owned, generation = decode_sticky(data)
            assert generation == JAVAS_GENERATION
            assert len(owned) > 1 or encode_sticky(owned, generation) == data, "Java's order of topics is that of a hash map"
            assert {topic: sorted(numbers) for topic, numbers in owned.items()} == answer["assignment"][member.member_id]
    for answer in ask(made, "cooperative-sticky", gives_bytes=True):
        assert {decode_generation(bytes.fromhex(data)) for data in answer["userData"].values()} == {JAVAS_GENERATION}
    for answer in ask(made, "range", gives_bytes=True):
        assert set(answer["userData"].values()) == {""}


def test_subscriptions_of_java_are_read_in_every_version(ask: Ask) -> None:
    made = groups()[:100]
    for group, answer in zip(made, ask(made, "cooperative-sticky", gives_bytes=True), strict=True):
        for member in group.members:
            for version, data in enumerate(answer["subscriptions"][member.member_id]):
                found = parse_subscription(bytes.fromhex(data))
                assert set(found.topics) == member.topics
                owned = {topic: tuple(numbers) for topic, numbers in member.owned.items()} if version else {}
                assert {topic: tuple(sorted(numbers)) for topic, numbers in found.owned.items()} == owned
