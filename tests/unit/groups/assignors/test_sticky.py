from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.assignors import Assignment, Subscriber
from ottla.groups.assignors.sticky import ASSIGNOR
from ottla.protocol.model import TopicPartition

TOPICS = ("t", "u", "v")


def members(*ids: str, topics: str = "t") -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split())) for each in ids]


def owning(name: str, *numbers: int, topics: str = "t", generation: int = 1) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset(topics.split()), owned={"t": numbers}, generation=generation)


def again(members: Sequence[Subscriber], assigned: Assignment) -> list[Subscriber]:
    return [replace(each, owned=assigned.get(each.member_id, {}), generation=each.generation + 1) for each in members]


def owners(assigned: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[TopicPartition, str]:
    pairs = [(TopicPartition(topic, number), name) for name, of in assigned.items() for topic, numbers in of.items() for number in numbers]
    assert len(pairs) == len(dict(pairs)), "a partition has two owners"
    return dict(pairs)


def moved(before: Assignment, after: Assignment) -> int:
    new = owners(after)
    return sum(new.get(partition) not in (owner, None) for partition, owner in owners(before).items())


def loads(assigned: Assignment) -> list[int]:
    return [sum(map(len, of.values())) for of in assigned.values()]


@pytest.mark.conformance("AbstractStickyAssignorTest.testReassignmentAfterOneConsumerLeaves")
def test_one_of_ten_members_leaves_and_five_partitions_move() -> None:
    everyone = members(*(f"m{each}" for each in range(10)))
    before = ASSIGNOR.assign(everyone, {"t": 50})
    assert loads(before) == [5] * 10
    after = ASSIGNOR.assign(again(everyone, before)[1:], {"t": 50})
    assert moved(before, after) == 5
    assert sorted(loads(after)) == [5] * 4 + [6] * 5


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testReassignmentAfterOneConsumerAdded", "AbstractStickyAssignorTest.testNoReassignmentOnCurrentMembers"
)
def test_a_new_member_gets_its_share_and_no_more_moves() -> None:
    everyone = members(*(f"m{each}" for each in range(9)))
    before = ASSIGNOR.assign(everyone, {"t": 50})
    after = ASSIGNOR.assign([*again(everyone, before), *members("new")], {"t": 50})
    assert loads(after) == [5] * 10
    assert moved(before, after) == 5


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testOneConsumerNoTopic",
    "AbstractStickyAssignorTest.testOneConsumerNonexistentTopic",
    "AbstractStickyAssignorTest.testOneConsumerOneTopic",
    "AbstractStickyAssignorTest.testOneConsumerMultipleTopics",
    "AbstractStickyAssignorTest.testOnlyAssignsPartitionsFromSubscribedTopics",
    "AbstractStickyAssignorTest.testTwoConsumersOneTopicOnePartition",
    "AbstractStickyAssignorTest.testTwoConsumersOneTopicTwoPartitions",
    "AbstractStickyAssignorTest.testMultipleConsumersMixedTopicSubscriptions",
    "AbstractStickyAssignorTest.testTwoConsumersTwoTopicsSixPartitions",
    "AbstractStickyAssignorTest.testNoExceptionThrownWhenOnlySubscribedTopicDeleted",
)
@pytest.mark.parametrize(
    ("group", "partitions", "assigned"),
    [
        (members("a", topics=""), {}, {"a": {}}),
        (members("a"), {}, {"a": {}}),
        ([owning("a", 0, 1, 2)], {}, {"a": {}}),
        (members("a"), {"t": 3}, {"a": {"t": [0, 1, 2]}}),
        (members("a", topics="t u"), {"t": 1, "u": 2}, {"a": {"t": [0], "u": [0, 1]}}),
        (members("a"), {"t": 1, "other": 3}, {"a": {"t": [0]}}),
        (members("a", "b"), {"t": 1}, {"a": {"t": [0]}, "b": {}}),
        (members("a", "b"), {"t": 2}, {"a": {"t": [0]}, "b": {"t": [1]}}),
        ([*members("a", "c"), *members("b", topics="t u")], {"t": 3, "u": 2}, {"a": {"t": [0, 2]}, "b": {"u": [0, 1]}, "c": {"t": [1]}}),
        (members("a", "b", topics="t u"), {"t": 3, "u": 3}, {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0, 2]}}),
    ],
)
def test_first_assignments(group: list[Subscriber], partitions: dict[str, int], assigned: Assignment) -> None:
    assert ASSIGNOR.assign(group, partitions) == assigned


@pytest.mark.conformance("AbstractStickyAssignorTest.testPoorRoundRobinAssignmentScenario")
def test_where_round_robin_is_uneven() -> None:
    group = [*members("C0", topics="t0"), *members("C1", topics="t0 t1"), *members("C2", topics="t0 t1 t2")]
    assigned = ASSIGNOR.assign(group, {"t0": 1, "t1": 2, "t2": 3})
    assert assigned == {"C0": {"t0": [0]}, "C1": {"t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testAddRemoveConsumerOneTopic",
    "AbstractStickyAssignorTest.testAddRemoveTwoConsumersTwoTopics",
    "AbstractStickyAssignorTest.testAddRemoveTopicTwoConsumers",
    "AbstractStickyAssignorTest.testSameSubscriptions",
    "AbstractStickyAssignorTest.testStickiness",
)
def test_members_and_topics_come_and_go() -> None:
    alone = members("a")
    first = ASSIGNOR.assign(alone, {"t": 3})
    two = [*again(alone, first), *members("b")]
    second = ASSIGNOR.assign(two, {"t": 3})
    assert (loads(second), moved(first, second)) == ([2, 1], 1)
    left = ASSIGNOR.assign(again(two, second)[1:], {"t": 3})
    assert loads(left) == [3]
    both = members("a", "b", topics="t u")
    one_topic = ASSIGNOR.assign(both, {"t": 3})
    two_topics = ASSIGNOR.assign(again(both, one_topic), {"t": 3, "u": 3})
    assert (loads(two_topics), moved(one_topic, two_topics)) == ([3, 3], 0)
    deleted = ASSIGNOR.assign(again(both, two_topics), {"u": 3})
    assert (sorted(loads(deleted)), moved(two_topics, deleted)) == ([1, 2], 0)


@pytest.mark.conformance("AbstractStickyAssignorTest.testTopicBalanceAfterReassignment")
def test_a_member_that_joins_gets_some_of_each_topic() -> None:
    everyone = members("a", "b", topics="t u")
    before = ASSIGNOR.assign(everyone, {"t": 12, "u": 12})
    after = ASSIGNOR.assign([*again(everyone, before), *members("c", topics="t u")], {"t": 12, "u": 12})
    assert [[len(of["t"]), len(of["u"])] for of in after.values()] == [[4, 4]] * 3


@pytest.mark.conformance("AbstractStickyAssignorTest.testNewSubscription", "AbstractStickyAssignorTest.testMoveExistingAssignments")
def test_changed_subscriptions() -> None:
    lists = ("t", "t u v w", "u v w", "u v w")
    group = [*members("a", topics=lists[0]), *members("b", topics=lists[1]), *members("c", "d", topics=lists[2])]
    before = ASSIGNOR.assign(group, {"t": 1, "u": 2, "v": 3, "w": 4})
    assert sorted(loads(before)) == [1, 3, 3, 3]
    wider = [replace(each, topics=each.topics | {"t"}) for each in again(group, before)]
    assert moved(before, ASSIGNOR.assign(wider, {"t": 1, "u": 2, "v": 3, "w": 4})) == 0


@pytest.mark.conformance("AbstractStickyAssignorTest.testAssignmentUpdatedForDeletedTopic")
def test_partitions_that_do_not_exist_any_more_are_not_kept() -> None:
    assert ASSIGNOR.assign([owning("a", 0, 1, 2, 3)], {"t": 2}) == {"a": {"t": [0, 1]}}
    group = [Subscriber(member_id="a", topics=frozenset({"t", "u"}), owned={"t": (0,), "u": (0, 1)}, generation=1)]
    assert ASSIGNOR.assign(group, {"t": 1, "v": 100}) == {"a": {"t": [0]}}


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testOwnedPartitionsAreInvalidatedForConsumerWithStaleGeneration",
    "AbstractStickyAssignorTest.testOwnedPartitionsAreInvalidatedForConsumerWithNoGeneration",
    "AbstractStickyAssignorTest.testOwnedPartitionsAreInvalidatedForConsumerWithMultipleGeneration",
    "StickyAssignorTest.testAssignmentWithMultipleGenerations1",
    "StickyAssignorTest.testAssignmentWithMultipleGenerations2",
)
@pytest.mark.parametrize("stale", [-1, 4])
def test_claims_of_older_generations_give_way(stale: int) -> None:
    group = [owning("a", 0, 1, 4, generation=5), owning("b", 2, 3, 5, generation=5), owning("c", 0, 2, 4, generation=stale)]
    assert ASSIGNOR.assign(group, {"t": 6}) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "c": {"t": [4, 5]}}


@pytest.mark.conformance(
    "StickyAssignorTest.testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithEqualPartitionsPerConsumer",
    "StickyAssignorTest.testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithUnequalPartitionsPerConsumer",
)
@pytest.mark.parametrize("count", [3, 4])
def test_a_partition_that_two_members_claim_belongs_to_neither(count: int) -> None:
    assigned = ASSIGNOR.assign([owning("a", 0, 1), owning("b", 0, 2), *members("c")], {"t": count})
    assert assigned["c"]["t"][0] == 0
    assert (assigned["a"]["t"][0], assigned["b"]["t"][0]) == (1, 2)


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testConsumerOwningMinQuotaExpectedMaxQuota",
    "AbstractStickyAssignorTest.testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers",
    "AbstractStickyAssignorTest.testAllConsumersAreUnderMinQuota",
    "AbstractStickyAssignorTest.testAllConsumersReachExpectedQuotaAndAreConsideredFilled",
)
@pytest.mark.parametrize(
    ("group", "count", "assigned"),
    [
        ([owning("a", 0, 2), owning("b", 1)], 3, [[0, 2], [1]]),
        ([owning("a", 0, 1), owning("b", 2, 3), owning("c")], 4, [[0, 1], [2], [3]]),
        ([owning("a"), owning("b", 0), owning("c")], 5, [[1, 3], [0, 4], [2]]),
        ([owning("a", 0, 1), owning("b", 2, 3), owning("c", 4)], 5, [[0, 1], [2, 3], [4]]),
    ],
)
def test_shares_of_equal_subscriptions(group: list[Subscriber], count: int, assigned: list[list[int]]) -> None:
    assert [of["t"] for of in ASSIGNOR.assign(group, {"t": count}).values()] == assigned


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int]]:
    subscriptions = draw(st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6))
    members = [Subscriber(member_id=f"m{at}", topics=frozenset(topics)) for at, topics in enumerate(subscriptions)]
    return members, draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8)))


@given(group=groups())
def test_every_subscribed_partition_has_one_owner_that_subscribes(group: tuple[list[Subscriber], dict[str, int]]) -> None:
    members, partitions = group
    found = owners(ASSIGNOR.assign(members, partitions))
    topics = {each.member_id: each.topics for each in members}
    subscribed = {topic for each in members for topic in each.topics}
    assert set(found) == {TopicPartition(topic, each) for topic in subscribed & partitions.keys() for each in range(partitions[topic])}
    assert all(partition.topic in topics[owner] for partition, owner in found.items())


@given(group=groups())
def test_nothing_moves_when_nothing_changed(group: tuple[list[Subscriber], dict[str, int]]) -> None:
    members, partitions = group
    before = ASSIGNOR.assign(members, partitions)
    assert ASSIGNOR.assign(again(members, before), partitions) == before


@given(count=st.integers(2, 8), partitions=st.integers(0, 40), gone=st.sets(st.integers(0, 7), max_size=3), joined=st.integers(0, 3))
def test_equal_subscriptions_stay_even_with_the_fewest_moves(count: int, partitions: int, gone: set[int], joined: int) -> None:
    everyone = members(*(f"m{each}" for each in range(count)))
    before = ASSIGNOR.assign(everyone, {"t": partitions})
    stayed = [each for at, each in enumerate(again(everyone, before)) if at not in gone]
    remaining = stayed + members(*(f"new{each}" for each in range(joined)))
    if not remaining:
        return
    after = ASSIGNOR.assign(remaining, {"t": partitions})
    assert max(loads(after)) - min(loads(after)) <= 1
    kept = sum(owners(before)[partition] == owner for partition, owner in owners(after).items())
    least, extra = divmod(partitions, len(remaining))
    held = sorted((sum(map(len, before[each.member_id].values())) for each in stayed), reverse=True)
    most = sum(min(each, least + (at < extra)) for at, each in enumerate(held))
    assert kept == most


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testLargeAssignmentAndGroupWithUniformSubscription",
    "AbstractStickyAssignorTest.testLargeAssignmentAndGroupWithNonEqualSubscription",
    "AbstractStickyAssignorTest.testAssignmentAndGroupWithNonEqualSubscriptionNotTimeout",
    "AbstractStickyAssignorTest.testLargeAssignmentWithMultipleConsumersLeavingAndRandomSubscription",
    "AbstractStickyAssignorTest.testReassignmentWithRandomSubscriptionsAndChanges",
    "StickyAssignorTest.testLargeAssignmentAndGroupWithUniformSubscription",
)
@pytest.mark.parametrize("topics_each", [10, 5], ids=["equal subscriptions", "random subscriptions"])
def test_large_groups_whose_members_leave(topics_each: int) -> None:
    """benchmarks/assignors.py has larger ones: what takes quadratic time would take minutes there."""
    rng, partitions = Random(1), {f"t{number}": 200 for number in range(10)}
    everyone = [Subscriber(member_id=f"m{number}", topics=frozenset(rng.sample(sorted(partitions), topics_each))) for number in range(200)]
    before = ASSIGNOR.assign(everyone, partitions)
    assert loads(before) == [10] * 200
    stayed = rng.sample(again(everyone, before), 150)
    after = ASSIGNOR.assign(stayed, partitions)
    assert max(loads(after)) - min(loads(after)) <= 1
    assert moved(before, after) == 500, "only those of the members that left"


@pytest.mark.conformance("AbstractStickyAssignorTest.testMemberData", "StickyAssignorTest.testMemberDataWithInconsistentData")
def test_ownership_is_that_of_the_user_data() -> None:
    # An eager member has revoked its partitions when it joins: the subscription's own fields show none.
    joined = Subscriber(member_id="a", topics=frozenset({"t"}), generation=8)
    found = ASSIGNOR.with_user_data(joined, ASSIGNOR.user_data({"t": [0, 1]}, 7))
    assert (found.owned, found.generation) == ({"t": (0, 1)}, 7)
    inconsistent = replace(joined, owned={"t": (5,)})
    assert ASSIGNOR.with_user_data(inconsistent, ASSIGNOR.user_data({"t": [0]}, 7)).owned == {"t": (0,)}
    assert ASSIGNOR.user_data(None, -1) is None
    assert ASSIGNOR.with_user_data(joined, None).generation == -1
