import pytest

from ottla.groups.assignors import Assignment, Racks, Subscriber
from ottla.groups.assignors.range import ASSIGNOR


def members(*ids: str, topics: str = "t") -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split())) for each in ids]


def in_racks(topics: str = "t", **racks: str) -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split()), rack=rack) for each, rack in racks.items()]


def racks(**topics: str) -> Racks:
    """`racks(t="ab b")`: partition 0 of t has replicas in racks a and b, partition 1 in b."""
    return {topic: tuple(map(frozenset, text.split())) for topic, text in topics.items()}


def test_the_first_members_get_one_more() -> None:
    assigned = ASSIGNOR.assign(members("C2-1", "C1-0", "C2-0"), {"t": 10})
    assert assigned == {"C1-0": {"t": [0, 1, 2, 3]}, "C2-0": {"t": [4, 5, 6]}, "C2-1": {"t": [7, 8, 9]}}


def test_each_topic_starts_with_the_same_member() -> None:
    assigned = ASSIGNOR.assign(members("a", "b", "c", topics="t u"), {"t": 10, "u": 10})
    assert [sum(map(len, of.values())) for of in assigned.values()] == [8, 6, 6]


@pytest.mark.conformance("RangeAssignorTest.testTwoConsumersOneTopicOnePartition")
def test_members_without_partitions_have_an_entry() -> None:
    assert ASSIGNOR.assign(members("a", "b"), {"t": 1}) == {"a": {"t": [0]}, "b": {}}


@pytest.mark.conformance(
    "RangeAssignorTest.testOneConsumerNoTopic",
    "RangeAssignorTest.testOneConsumerNonexistentTopic",
    "RangeAssignorTest.testOneConsumerOneTopic",
    "RangeAssignorTest.testOneConsumerMultipleTopics",
    "RangeAssignorTest.testOnlyAssignsPartitionsFromSubscribedTopics",
)
@pytest.mark.parametrize(
    ("topics", "partitions", "assigned"),
    [
        ("", {}, {}),
        ("t", {}, {}),
        ("t", {"t": 3}, {"t": [0, 1, 2]}),
        ("t u", {"t": 1, "u": 2}, {"t": [0], "u": [0, 1]}),
        ("t", {"t": 1, "other": 3}, {"t": [0]}),
    ],
)
def test_one_member_gets_all_that_it_subscribes_to(topics: str, partitions: dict[str, int], assigned: dict[str, list[int]]) -> None:
    assert ASSIGNOR.assign(members("a", topics=topics), partitions) == {"a": assigned}


@pytest.mark.conformance(
    "RangeAssignorTest.testTwoConsumersOneTopicTwoPartitions",
    "RangeAssignorTest.testMultipleConsumersMixedTopics",
    "RangeAssignorTest.testTwoConsumersTwoTopicsSixPartitions",
)
def test_topics_are_divided_among_their_own_subscribers() -> None:
    assert ASSIGNOR.assign(members("a", "b"), {"t": 2}) == {"a": {"t": [0]}, "b": {"t": [1]}}
    mixed = [*members("a", "c"), *members("b", topics="t u")]
    assert ASSIGNOR.assign(mixed, {"t": 3, "u": 2}) == {"a": {"t": [0]}, "b": {"t": [1], "u": [0, 1]}, "c": {"t": [2]}}
    both = ASSIGNOR.assign(members("a", "b", topics="t u"), {"t": 3, "u": 3})
    assert both == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2], "u": [2]}}


@pytest.mark.conformance(
    "RangeAssignorTest.testTwoStaticConsumersTwoTopicsSixPartitions",
    "RangeAssignorTest.testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions",
)
def test_static_members_come_first_by_instance_id() -> None:
    static = Subscriber(member_id="z", instance_id="2", topics=frozenset({"t"}))
    other = Subscriber(member_id="b", instance_id="3", topics=frozenset({"t"}))
    assert ASSIGNOR.assign([*members("a"), static], {"t": 1}) == {"a": {}, "z": {"t": [0]}}
    assert ASSIGNOR.assign([other, static], {"t": 1}) == {"b": {}, "z": {"t": [0]}}


@pytest.mark.conformance(
    "RangeAssignorTest.testStaticMemberRangeAssignmentPersistent",
    "RangeAssignorTest.testStaticMemberRangeAssignmentPersistentAfterMemberIdChanges",
)
def test_a_static_member_keeps_its_partitions_with_a_new_member_id() -> None:
    def group(*ids: str) -> Assignment:
        static = [Subscriber(member_id=each, instance_id=f"i{at}", topics=frozenset({"t", "u"})) for at, each in enumerate(ids)]
        return ASSIGNOR.assign(static, {"t": 5, "u": 4})

    before, after = group("a", "b", "c"), group("a", "z", "c")
    assert after == {"a": before["a"], "z": before["b"], "c": before["c"]}


@pytest.mark.conformance(
    "RangeAssignorTest.testRackAwareAssignmentWithUniformSubscription",
    "RangeAssignorTest.testRackAwareAssignmentWithNonEqualSubscription",
)
def test_members_get_partitions_of_their_rack_and_no_more_than_without_racks() -> None:
    group = in_racks(a="1", b="2", c="3")
    assert ASSIGNOR.assign(group, {"t": 3}, racks(t="3 1 2")) == {"a": {"t": [1]}, "b": {"t": [2]}, "c": {"t": [0]}}
    # One more for the first that a match leaves room for; what matches no member left goes by range.
    assert ASSIGNOR.assign(group, {"t": 4}, racks(t="3 3 3 1")) == {"a": {"t": [3]}, "b": {"t": [2]}, "c": {"t": [0, 1]}}


@pytest.mark.conformance(
    "RangeAssignorTest.testRackAwareAssignmentWithUniformPartitions",
    "RangeAssignorTest.testRackAwareAssignmentWithUniformPartitionsNonEqualSubscription",
)
def test_racks_make_no_difference_where_all_partitions_are_in_all_of_them() -> None:
    group = in_racks(a="2", b="1")
    assert ASSIGNOR.assign(group, {"t": 4}, racks(t="12 12 12 12")) == ASSIGNOR.assign(members("a", "b"), {"t": 4})
    assert ASSIGNOR.assign(group, {"t": 4}, racks(t="3 4 3 4")) == ASSIGNOR.assign(members("a", "b"), {"t": 4})


@pytest.mark.conformance(
    "RangeAssignorTest.testRackAwareAssignmentWithCoPartitioning", "RangeAssignorTest.testCoPartitionedAssignmentWithSameSubscription"
)
def test_topics_of_the_same_size_are_divided_alike() -> None:
    group = in_racks("t u", a="1", b="2")
    assigned = ASSIGNOR.assign(group, {"t": 4, "u": 4}, racks(t="2 2 1 1", u="2 2 1 1"))
    assert assigned == {"a": {"t": [2, 3], "u": [2, 3]}, "b": {"t": [0, 1], "u": [0, 1]}}


def test_a_member_without_a_rack_takes_any() -> None:
    group = [*in_racks(a="1"), *members("b")]
    assert ASSIGNOR.assign(group, {"t": 2}, racks(t="2 1")) == {"a": {"t": [1]}, "b": {"t": [0]}}


# --- the coordinator's range assignor, as Apache Kafka's own tests of it have it


def spread(partitions: dict[str, int], **given: str) -> dict[str, dict[str, list[int]]]:
    """The assignment of members with these topics; `i1/t u` is a static one."""
    made = []
    for name, text in given.items():
        instance_id, _, topics = text.rpartition("/")
        made.append(Subscriber(member_id=name, instance_id=instance_id or None, topics=frozenset(topics.split())))
    return ASSIGNOR.assign(made, partitions)


@pytest.mark.conformance(
    "RangeAssignorTest.coordinator.testOneMemberNoTopic",
    "RangeAssignorTest.coordinator.testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions",
    "RangeAssignorTest.coordinator.testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions",
    "RangeAssignorTest.coordinator.testFirstAssignmentNumMembersGreaterThanNumPartitions",
    "RangeAssignorTest.coordinator.testStaticMembership",
    "RangeAssignorTest.coordinator.testMixedStaticMembership",
)
def test_first_assignments_in_a_consumer_group() -> None:
    assert spread({"t": 3}, a="") == {"a": {}}
    assert spread({"t": 3, "v": 2}, a="t v", b="t v") == {"a": {"t": [0, 1], "v": [0]}, "b": {"t": [2], "v": [1]}}
    different = spread({"t": 3, "u": 3, "v": 2}, a="t u", b="v", c="u v")
    assert different == {"a": {"t": [0, 1, 2], "u": [0, 1]}, "b": {"v": [0]}, "c": {"u": [2], "v": [1]}}
    assert spread({"t": 3, "v": 2}, a="t v", b="t v", c="t v") == {"a": {"t": [0], "v": [0]}, "b": {"t": [1], "v": [1]}, "c": {"t": [2]}}
    assert spread({"t": 3}, b="i1/t", a="i2/t") == {"b": {"t": [0, 1]}, "a": {"t": [2]}}
    assert spread({"t": 3}, x="i1/t", y="i2/t") == {"x": {"t": [0, 1]}, "y": {"t": [2]}}, "the same with other member ids"
    assert spread({"t": 5}, a="i1/t", b="t", c="i3/t") == {"a": {"t": [0, 1]}, "b": {"t": [4]}, "c": {"t": [2, 3]}}


@pytest.mark.conformance(
    "RangeAssignorTest.coordinator.testReassignmentStickiness",
    "RangeAssignorTest.coordinator.testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded",
    "RangeAssignorTest.coordinator.testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics",
    "RangeAssignorTest.coordinator.testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
    "RangeAssignorTest.coordinator.testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics",
    "RangeAssignorTest.coordinator.testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
    "RangeAssignorTest.coordinator.testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
)
@pytest.mark.parametrize(
    ("partitions", "subscriptions", "expected"),
    [
        ({"t": 3, "u": 3}, {"a": "t u", "b": "t u"}, {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2], "u": [2]}}),
        ({"t": 2, "u": 2}, {"a": "t u", "b": "t u", "c": "t u"}, {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}, "c": {}}),
        ({"t": 4, "u": 4}, {"a": "t u", "b": "t u"}, {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2, 3], "u": [2, 3]}}),
        (
            {"t": 3, "u": 3},
            {"a": "t u", "b": "t u", "c": "t u"},
            {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}, "c": {"t": [2], "u": [2]}},
        ),
        (
            {"t": 4, "u": 3},
            {"a": "t u", "b": "t u", "c": "t"},
            {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2], "u": [2]}, "c": {"t": [3]}},
        ),
        ({"t": 3, "u": 3}, {"b": "t u"}, {"b": {"t": [0, 1, 2], "u": [0, 1, 2]}}),
        ({"t": 3, "u": 3}, {"a": "t", "b": "t u", "c": "u"}, {"a": {"t": [0, 1]}, "b": {"t": [2], "u": [0, 1]}, "c": {"u": [2]}}),
    ],
)
def test_reassignments_in_a_consumer_group(
    partitions: dict[str, int], subscriptions: dict[str, str], expected: dict[str, dict[str, list[int]]]
) -> None:
    assert spread(partitions, **subscriptions) == expected
    # What members had before makes no difference.
    before = {"t": (0, 1, 2), "u": (1,)}
    owning = [Subscriber(member_id=name, topics=frozenset(topics.split()), owned=before) for name, topics in subscriptions.items()]
    assert ASSIGNOR.assign(owning, partitions) == expected
