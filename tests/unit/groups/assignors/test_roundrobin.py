import pytest

from ottla.groups.assignors import Assignment, Subscriber
from ottla.groups.assignors.roundrobin import ASSIGNOR


def members(*ids: str, topics: str = "t") -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split())) for each in ids]


@pytest.mark.conformance("RoundRobinAssignorTest.testTwoDynamicConsumersTwoTopicsSixPartitions")
def test_partitions_of_all_topics_go_round() -> None:
    assigned = ASSIGNOR.assign(members("b", "a", topics="t u"), {"t": 3, "u": 3})
    assert assigned == {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0, 2]}}


@pytest.mark.conformance("RoundRobinAssignorTest.testMultipleConsumersMixedTopics")
def test_members_that_do_not_subscribe_are_passed_over() -> None:
    group = [*members("a"), *members("b", topics="t u")]
    assert ASSIGNOR.assign(group, {"t": 1, "u": 2, "unread": 1}) == {"a": {"t": [0]}, "b": {"u": [0, 1]}}
    mixed = [*members("a"), *members("b", topics="t u"), *members("c")]
    assert ASSIGNOR.assign(mixed, {"t": 3, "u": 2}) == {"a": {"t": [0]}, "b": {"t": [1], "u": [0, 1]}, "c": {"t": [2]}}


def test_the_known_weakness_with_unequal_subscriptions() -> None:
    group = [*members("C0", topics="t0"), *members("C1", topics="t0 t1"), *members("C2", topics="t0 t1 t2")]
    assigned = ASSIGNOR.assign(group, {"t0": 1, "t1": 2, "t2": 3})
    assert assigned == {"C0": {"t0": [0]}, "C1": {"t1": [0]}, "C2": {"t1": [1], "t2": [0, 1, 2]}}


@pytest.mark.conformance(
    "RoundRobinAssignorTest.testOneConsumerNoTopic",
    "RoundRobinAssignorTest.testOneConsumerNonexistentTopic",
    "RoundRobinAssignorTest.testOneConsumerOneTopic",
    "RoundRobinAssignorTest.testOneConsumerMultipleTopics",
    "RoundRobinAssignorTest.testOnlyAssignsPartitionsFromSubscribedTopics",
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
    "RoundRobinAssignorTest.testTwoConsumersOneTopicOnePartition", "RoundRobinAssignorTest.testTwoConsumersOneTopicTwoPartitions"
)
def test_two_members_share_a_topic() -> None:
    assert ASSIGNOR.assign(members("a", "b"), {"t": 1}) == {"a": {"t": [0]}, "b": {}}
    assert ASSIGNOR.assign(members("a", "b"), {"t": 2}) == {"a": {"t": [0]}, "b": {"t": [1]}}


@pytest.mark.conformance(
    "RoundRobinAssignorTest.testTwoStaticConsumersTwoTopicsSixPartitions",
    "RoundRobinAssignorTest.testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions",
)
def test_static_members_come_first() -> None:
    static = [Subscriber(member_id=each, instance_id=f"i{at}", topics=frozenset({"t", "u"})) for at, each in enumerate("zy")]
    both = ASSIGNOR.assign(static, {"t": 3, "u": 3})
    assert both == {"z": {"t": [0, 2], "u": [1]}, "y": {"t": [1], "u": [0, 2]}}
    assert ASSIGNOR.assign([*members("a", topics="t u"), static[0]], {"t": 3, "u": 3})["z"] == both["z"]


@pytest.mark.conformance(
    "RoundRobinAssignorTest.testStaticMemberRoundRobinAssignmentPersistent",
    "RoundRobinAssignorTest.testStaticMemberRoundRobinAssignmentPersistentAfterMemberIdChanges",
)
def test_a_static_member_keeps_its_partitions_with_a_new_member_id() -> None:
    def group(*ids: str) -> Assignment:
        static = [Subscriber(member_id=each, instance_id=f"i{at}", topics=frozenset({"t", "u"})) for at, each in enumerate(ids)]
        return ASSIGNOR.assign(static, {"t": 5, "u": 4})

    before, after = group("a", "b", "c"), group("a", "z", "c")
    assert after == {"a": before["a"], "z": before["b"], "c": before["c"]}


def test_no_members_get_nothing() -> None:
    assert ASSIGNOR.assign([], {"t": 3}) == {}
