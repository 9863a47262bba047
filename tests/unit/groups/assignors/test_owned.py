"""What members say they owned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.assignors import Subscriber
from ottla.groups.assignors._owned import claimed_partitions, decode_generation, decode_sticky, encode_generation, encode_sticky
from ottla.protocol.model import TopicPartition

V1 = bytes.fromhex("00000001000174000000020000000000000001" + "00000007")
PARTITIONS = st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple), max_size=3)


@pytest.mark.conformance("StickyAssignorTest.testMemberDataWillHonorUserData")
def test_topics_partitions_and_generation() -> None:
    assert encode_sticky({"t": [0, 1]}, 7) == V1
    assert decode_sticky(V1) == ({"t": (0, 1)}, 7)


@pytest.mark.conformance("StickyAssignorTest.testSchemaBackwardCompatibility", "StickyAssignorTest.testAssignorWithOldVersionSubscriptions")
def test_version_0_has_no_generation() -> None:
    assert decode_sticky(V1[:-4]) == ({"t": (0, 1)}, -1)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\x00\x00\x00\x09", V1[:12], b"\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00"])
def test_what_cannot_be_read_owns_nothing(data: bytes | None) -> None:
    assert decode_sticky(data) == ({}, -1)


@given(owned=PARTITIONS, generation=st.integers(-1, 2**31 - 1))
def test_what_is_written_is_read(owned: dict[str, tuple[int, ...]], generation: int) -> None:
    assert decode_sticky(encode_sticky(owned, generation)) == (owned, generation)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read(data: bytes) -> None:
    decode_sticky(data)
    assert isinstance(decode_generation(data), int)


@pytest.mark.conformance(
    "CooperativeStickyAssignorTest.testEncodeAndDecodeGeneration", "CooperativeStickyAssignorTest.testDecodeGeneration"
)
def test_the_generation_of_the_cooperative_assignor() -> None:
    assert encode_generation(10) == bytes.fromhex("0000000a")
    assert decode_generation(bytes.fromhex("0000000a")) == 10
    assert decode_generation(None) == decode_generation(b"") == decode_generation(b"\x00") == -1


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
