"""The uniform assignor: even, sticky, and as Apache Kafka's where its order does not depend on hashes."""

from collections.abc import Mapping
from random import Random

import pytest

from ottla.groups.assignors import Assignment, Subscriber, assignors, coordinator_assignors

UNIFORM = coordinator_assignors()["uniform"]
Owned = Mapping[str, tuple[int, ...]]


def member(member_id: str, *topics: str, **owned: tuple[int, ...]) -> Subscriber:
    return Subscriber(member_id=member_id, topics=frozenset(topics), owned=owned)


def test_it_is_the_coordinators_default_and_no_leaders() -> None:
    assert list(coordinator_assignors()) == ["uniform", "range"]
    assert "uniform" not in assignors()
    with pytest.raises(ValueError, match="no assignor of consumer groups"):
        coordinator_assignors(("sticky",))


def test_the_first_assignment_of_equal_subscriptions() -> None:
    members = [member("a", "t", "u"), member("b", "t", "u")]
    assert UNIFORM.assign(members, {"t": 3, "u": 2}) == {"a": {"t": [0, 1]}, "b": {"t": [2], "u": [0, 1]}}


def test_members_keep_what_their_quota_holds() -> None:
    members = [member("a", "t", t=(0, 1, 2, 3)), member("b", "t"), member("c", "t", t=(4, 5))]
    assert UNIFORM.assign(members, {"t": 7}) == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 6]}, "c": {"t": [4, 5]}}


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_even_and_nothing_is_lost(seed: int) -> None:
    rng = Random(seed)
    topics = {name: rng.randint(1, 6) for name in "tuv"}
    is_same = rng.random() < 0.4
    members = [member(f"m{at}", *("tuv" if is_same else rng.sample("tuv", rng.randint(1, 3)))) for at in range(rng.randint(1, 5))]
    for _ in range(3):
        made = UNIFORM.assign(members, topics)
        given = [(topic, number) for of in made.values() for topic, numbers in of.items() for number in numbers]
        wanted = [(topic, number) for topic, count in topics.items() for number in range(count) if any(topic in m.topics for m in members)]
        assert sorted(given) == sorted(wanted)
        assert all(topic in each.topics for each in members for topic in made[each.member_id])
        loads = {each.member_id: sum(map(len, made[each.member_id].values())) for each in members}
        for giver in members:
            for taker in members:
                if any(topic in taker.topics for topic in made[giver.member_id]):
                    assert loads[giver.member_id] - loads[taker.member_id] <= 1
        owned = [member(each.member_id, *each.topics, **{t: tuple(n) for t, n in made[each.member_id].items()}) for each in members]
        assert UNIFORM.assign(owned, topics) == made, "nothing moves without a reason"
        topics = {name: rng.randint(1, 6) for name in "tuv"}
        members = owned[1:] or owned


# --- as Apache Kafka's own tests of the two cases have it


def assign(partitions: dict[str, int], **members: tuple[str, Owned]) -> Assignment:
    """Members with their topics and what they own; the assignment, each partition with a subscriber in it once."""
    subscribers = [member(name, *topics.split(), **owned) for name, (topics, owned) in members.items()]
    made = UNIFORM.assign(subscribers, partitions)
    topics_of = {each.member_id: each.topics for each in subscribers}
    given = sorted((topic, number) for of in made.values() for topic, numbers in of.items() for number in numbers)
    assert given == sorted(
        (topic, number) for topic, count in partitions.items() if any(topic in of for of in topics_of.values()) for number in range(count)
    )
    assert all(set(of) <= topics_of[name] for name, of in made.items())
    return made


def counts(made: Assignment) -> list[int]:
    return [sum(map(len, of.values())) for of in made.values()]


def kept(made: Assignment, **owned: Owned) -> bool:
    """Whether members have all of these still."""
    return all(set(numbers) <= set(made[name].get(topic, ())) for name, of in owned.items() for topic, numbers in of.items())


@pytest.mark.conformance(
    "UniformHomogeneousAssignmentBuilderTest.testOneMemberNoTopicSubscription",
    "UniformHomogeneousAssignmentBuilderTest.testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks",
    "UniformHomogeneousAssignmentBuilderTest.testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
    "UniformHomogeneousAssignmentBuilderTest.testValidityAndBalanceForLargeSampleSet",
)
def test_first_assignments_of_equal_subscriptions_are_even() -> None:
    assert assign({"t": 3}, a=("", {})) == {"a": {}}
    assert counts(assign({"t": 3, "u": 2}, a=("t u", {}), b=("t u", {}))) == [2, 3]
    assert counts(assign({"t": 2}, a=("t", {}), b=("t", {}), c=("t", {}))) == [0, 1, 1]
    topics = {f"t{number}": 3 for number in range(100)}
    large = assign(topics, **{f"m{number}": (" ".join(topics), {}) for number in range(37)})
    assert set(counts(large)) == {8, 9}


@pytest.mark.conformance(
    "UniformHomogeneousAssignmentBuilderTest.testAssignmentReuse",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentStickiness",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
    "UniformHomogeneousAssignmentBuilderTest.testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
)
def test_reassignments_of_equal_subscriptions_keep_what_the_quota_allows() -> None:
    first, second = {"t": (0, 1), "u": (0,)}, {"t": (2,), "u": (1, 2)}
    same = assign({"t": 3, "u": 3}, a=("t u", first), b=("t u", second))
    assert kept(same, a=first, b=second)
    assert counts(same) == [3, 3]
    uneven = assign({"t": 3, "u": 3}, a=("t u", {"t": (0, 1), "u": (0, 1)}), b=("t u", {"t": (2,), "u": (2,)}))
    assert uneven == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2], "u": [1, 2]}}
    grown = assign({"t": 6, "u": 5}, a=("t u", first), b=("t u", second))
    assert kept(grown, a=first, b=second)
    assert counts(grown) == [5, 6]
    joined = assign({"t": 3, "u": 3}, a=("t u", first), b=("t u", second), c=("t u", {}))
    assert counts(joined) == [2, 2, 2]
    assert kept({"m": joined["a"]}, m={"t": (0, 1)}), "one is given up, the others stay"
    left = assign({"t": 3, "u": 3}, a=("t u", {"t": (0,), "u": (0,)}), b=("t u", {"t": (1,), "u": (1,)}))
    assert kept(left, a={"t": (0,), "u": (0,)}, b={"t": (1,), "u": (1,)})
    assert counts(left) == [3, 3]
    narrowed = assign({"u": 2}, a=("u", {"t": (0,), "u": (0,)}), b=("u", {"t": (1,), "u": (1,)}))
    assert narrowed == {"a": {"u": [0]}, "b": {"u": [1]}}


@pytest.mark.conformance(
    "UniformHeterogeneousAssignmentBuilderTest.testTwoMembersNoTopicSubscription",
    "UniformHeterogeneousAssignmentBuilderTest.testFirstAssignmentTwoMembersTwoTopics",
    "UniformHeterogeneousAssignmentBuilderTest.testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
    "UniformHeterogeneousAssignmentBuilderTest.testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions",
)
def test_first_assignments_of_unequal_subscriptions() -> None:
    assert assign({"t": 3}, a=("", {}), b=("", {})) == {"a": {}, "b": {}}
    two = assign({"t": 3, "v": 6}, a=("t v", {}), b=("v", {}))
    assert two == {"a": {"t": [0, 1, 2], "v": [4]}, "b": {"v": [0, 1, 2, 3, 5]}}
    assert assign({"t": 2, "v": 1}, a=("v", {}), b=("v", {}), c=("t", {})) == {"a": {"v": [0]}, "b": {}, "c": {"t": [0, 1]}}
    assert assign({"t": 3}, a=("t", {}), b=("", {})) == {"a": {"t": [0, 1, 2]}, "b": {}}


@pytest.mark.conformance(
    "UniformHeterogeneousAssignmentBuilderTest.testAssignmentReuse",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentStickiness",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentWhenPartitionsAreAddedForTwoMembers",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
    "UniformHeterogeneousAssignmentBuilderTest.testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions",
)
def test_reassignments_of_unequal_subscriptions() -> None:
    made = assign(
        {"t": 6, "u": 4, "v": 4},
        a=("t", {"t": (0, 1, 2)}),
        b=("t u", {"t": (3,), "u": (0,)}),
        c=("t u v", {"t": (4, 5), "u": (1, 2, 3), "v": (0, 1, 2, 3)}),
    )
    assert made == {"a": {"t": [0, 1, 2, 5]}, "b": {"t": [3], "u": [0, 1, 2, 3]}, "c": {"t": [4], "v": [0, 1, 2, 3]}}
    owned = {name: {topic: tuple(numbers) for topic, numbers in of.items()} for name, of in made.items()}
    again = assign({"t": 6, "u": 4, "v": 4}, a=("t", owned["a"]), b=("t u", owned["b"]), c=("t u v", owned["c"]))
    assert again == made, "nothing moves without a reason"
    grown = assign(
        {"t": 6, "u": 5, "v": 3, "w": 3},
        a=("t v", {"t": (0, 1, 2, 3), "v": (0, 1)}),
        b=("t u v w", {"u": (0, 1, 2), "w": (0, 1, 2)}),
    )
    assert grown == {"a": {"t": [0, 1, 2, 3, 4, 5], "v": [0, 1, 2]}, "b": {"u": [0, 1, 2, 3, 4], "w": [0, 1, 2]}}
    joined = assign({"t": 6, "u": 7}, a=("t", {"t": (0, 2), "u": (0,)}), b=("t u", {"t": (1,), "u": (1, 2)}), c=("t u", {}))
    assert joined == {"a": {"t": [0, 2, 3, 4, 5]}, "b": {"t": [1], "u": [1, 2, 6]}, "c": {"u": [0, 3, 4, 5]}}
    left = assign({"t": 3, "u": 8, "v": 3}, a=("t v", {"t": (0, 1, 2), "v": (0, 1)}), b=("u", {"u": (3, 4, 5, 6)}))
    assert left == {"a": {"t": [0, 1, 2], "v": [0, 1, 2]}, "b": {"u": [0, 1, 2, 3, 4, 5, 6, 7]}}
    narrowed = assign({"t": 3, "u": 5}, a=("t", {"t": (0, 2), "u": (1, 3)}), b=("t u", {"t": (1,), "u": (0, 2, 4)}))
    assert narrowed == {"a": {"t": [0, 1, 2]}, "b": {"u": [0, 1, 2, 3, 4]}}
    all_of_them = {"t": (0, 1), "u": (0, 1), "v": (0, 1)}
    run_out = UNIFORM.assign(
        [member("a", "t", "u", "v", **all_of_them), member("b", "t", "u", "v"), member("nothing")], {"t": 2, "u": 2, "v": 2}
    )
    assert run_out == {"a": {"u": [0], "v": [0, 1]}, "b": {"t": [0, 1], "u": [1]}, "nothing": {}}
