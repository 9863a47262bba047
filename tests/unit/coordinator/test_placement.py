"""Placement: Java's hash, and the partition of a group."""

import pytest

from ottla.coordinator.placement import coordinator_partition
from ottla.text import java_hash

VECTORS = [
    ("", 0, 0),
    ("a", 97, 47),
    ("my-group", -1906497762, 12),
    ("test-group", 627841412, 12),
    ("groupe-é", 506365602, 2),
    ("😀-group", -1198440043, 43),
    ("polygenelubricants", -(2**31), 0),
    ("consumer-group-1", 147483020, 20),
]


@pytest.mark.parametrize(("group_id", "value", "partition"), VECTORS)
def test_hash_and_partition(group_id: str, value: int, partition: int) -> None:
    assert java_hash(group_id) == value
    assert coordinator_partition(group_id, 50) == partition


def test_test_group_is_in_partition_12() -> None:
    assert java_hash("test-group") == 627841412
    assert coordinator_partition("test-group", 50) == 12


def test_the_partition_follows_the_topics_own_count() -> None:
    assert coordinator_partition("test-group", 7) == 627841412 % 7
    assert coordinator_partition("anything", 1) == 0


def test_negative_hashes_are_made_positive_not_masked() -> None:
    assert coordinator_partition("my-group", 50) == 1906497762 % 50 != (-1906497762 & 0x7FFFFFFF) % 50
