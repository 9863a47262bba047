import pytest

from ottla.groups.assignors import Subscriber
from ottla.groups.assignors.cooperative_sticky import ASSIGNOR


def member(name: str, *owned: int, generation: int = 1) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": owned} if owned else {}, generation=generation)


@pytest.mark.conformance("CooperativeStickyAssignorTest.testUniformSubscriptionTransferOwnershipListIsRight")
def test_partitions_that_move_are_revoked_first_and_assigned_in_the_next_rebalance() -> None:
    first = ASSIGNOR.assign([member("a", 0, 1, 2, 3), member("b")], {"t": 4})
    assert first == {"a": {"t": [0, 1]}, "b": {}}
    assert ASSIGNOR.assign([member("a", 0, 1), member("b")], {"t": 4}) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_one_of_three_joins() -> None:
    group = [member("C0", 0, 1, 2, 3), member("C1", 4, 5, 6), member("C2")]
    assert ASSIGNOR.assign(group, {"t": 7}) == {"C0": {"t": [0, 1, 2]}, "C1": {"t": [4, 5]}, "C2": {}}
    group = [member("C0", 0, 1, 2), member("C1", 4, 5), member("C2")]
    assert ASSIGNOR.assign(group, {"t": 7}) == {"C0": {"t": [0, 1, 2]}, "C1": {"t": [4, 5]}, "C2": {"t": [3, 6]}}


def test_partitions_of_a_member_that_is_gone_are_assigned_at_once() -> None:
    assert ASSIGNOR.assign([member("a", 0), member("c", 2)], {"t": 4}) == {"a": {"t": [0, 1]}, "c": {"t": [2, 3]}}


@pytest.mark.conformance(
    "CooperativeStickyAssignorTest.testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithEqualPartitionsPerConsumer",
    "CooperativeStickyAssignorTest.testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWithUnequalPartitionsPerConsumer",
    "AbstractStickyAssignorTest.testPartitionsTransferringOwnershipIncludeThePartitionClaimedByMultipleConsumersInSameGeneration",
)
@pytest.mark.parametrize("partitions", [3, 4])
def test_a_partition_that_two_members_claim_is_revoked_from_both_first(partitions: int) -> None:
    first = ASSIGNOR.assign([member("a", 0, 1), member("b", 0, 2), member("c")], {"t": partitions})
    assert 0 not in [number for of in first.values() for number in of.get("t", ())]
    owned = [member(name, *of.get("t", ()), generation=2) for name, of in first.items()]
    after = ASSIGNOR.assign(owned, {"t": partitions})
    assert sorted(number for of in after.values() for number in of["t"]) == list(range(partitions))


def test_an_old_claim_does_not_take_a_partition_from_its_owner() -> None:
    # b owns 0 and 1 by an older generation: only its claims to 1 hold, and a keeps 0 at once.
    assert ASSIGNOR.assign([member("a", 0, generation=5), member("b", 0, 1, generation=4)], {"t": 2}) == {"a": {"t": [0]}, "b": {"t": [1]}}


@pytest.mark.conformance(
    "CooperativeStickyAssignorTest.testMemberDataWithInconsistentData",
    "CooperativeStickyAssignorTest.testMemberDataWithEmptyPartitionsAndEqualGeneration",
    "CooperativeStickyAssignorTest.testMemberDataWithEmptyPartitionsAndHigherGeneration",
    "CooperativeStickyAssignorTest.testAssignorWithOldVersionSubscriptions",
)
def test_the_generation_is_that_of_the_subscription_or_else_of_the_user_data() -> None:
    new, old = member("a", 0, generation=8), member("a", 0, generation=-1)
    data = ASSIGNOR.user_data({"t": [0, 1, 2]}, 7)
    assert ASSIGNOR.with_user_data(new, data) == new
    assert ASSIGNOR.with_user_data(old, data) == member("a", 0, generation=7)
    assert ASSIGNOR.with_user_data(old, None) == old
    assert ASSIGNOR.user_data(None, -1) == b"\xff\xff\xff\xff"
