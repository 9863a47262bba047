"""Starting offsets of a query from a group."""

import pytest

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.errors import RequestFailedError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group.starting_offsets import NoCommittedOffsetError, committed_offsets, starting_offsets

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Admin:
    """Gives one scripted result."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def committed(self, groups: list[str]) -> dict[str, object]:
        return dict.fromkeys(groups, self.answer)


def test_committed_offsets_count_and_others_start_as_the_reset_says():
    committed = {A: 5, C: 9}
    assert starting_offsets("g", committed, [B, A], "earliest") == {A: 5, B: -2}
    assert starting_offsets("g", committed, [B, A], "latest") == {A: 5, B: -1}
    assert starting_offsets("g", committed, [A, C], "none") == {A: 5, C: 9}


def test_without_a_reset_every_partition_without_an_offset_is_named():
    with pytest.raises(NoCommittedOffsetError, match="the group g has committed no offset for t-0, t-1: "):
        starting_offsets("g", {C: 9}, [B, A, C], "none")


def test_a_commit_of_offset_0_is_a_commit():
    assert committed_offsets(Admin({A: CommittedOffset(0), B: CommittedOffset(-1)}), "g") == {A: 0}
    assert starting_offsets("g", {A: 0}, [A], "latest") == {A: 0}


def test_partitions_without_a_commit_and_a_failed_request():
    assert committed_offsets(Admin({A: CommittedOffset(5), B: CommittedOffset(-1)}), "g") == {A: 5}
    with pytest.raises(RequestFailedError, match="the offsets of group g: GROUP_AUTHORIZATION_FAILED"):
        committed_offsets(Admin(Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)), "g")
