import pytest

from ottla.groups.assignors import Subscriber
from ottla.groups.assignors._claims import claimed_partitions
from ottla.protocol.model import TopicPartition


def member(name: str, generation: int, *numbers: int) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": numbers}, generation=generation)


@pytest.mark.conformance(
    "AbstractStickyAssignorTest.testEnsurePartitionsAssignedToHighestGeneration",
    "AbstractStickyAssignorTest.testSubscriptionNotEqualAndAssignSamePartitionWith3Generation",
    "StickyAssignorTest.testAssignmentWithConflictingPreviousGenerations",
)
def test_claims_of_a_later_generation_win_and_equal_ones_cancel_each_other() -> None:
    claims = claimed_partitions([member("a", 3, 0, 1), member("b", 2, 0), member("c", 3, 1, 2)])
    assert claims == {TopicPartition("t", 0): "a", TopicPartition("t", 1): None, TopicPartition("t", 2): "c"}


def test_a_later_claim_wins_over_two_that_cancelled_each_other() -> None:
    assert claimed_partitions([member("a", 3, 0), member("b", 3, 0), member("c", 4, 0)]) == {TopicPartition("t", 0): "c"}
    assert claimed_partitions([member("c", 4, 0), member("a", 3, 0), member("b", 3, 0)]) == {TopicPartition("t", 0): "c"}


def test_an_old_claim_without_a_rival_holds_and_a_member_is_no_rival_of_itself() -> None:
    assert claimed_partitions([member("a", -1, 0), member("b", 5, 1, 1)]) == {TopicPartition("t", 0): "a", TopicPartition("t", 1): "b"}
