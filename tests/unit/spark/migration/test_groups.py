"""The groups of a migration on a scripted cluster."""

from typing import Any

import pytest

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.migration.groups import commit, read_positions, with_members
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.values import MigrationError


def offsets(topic: str, *committed: int) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(topic, number): CommittedOffset(offset) for number, offset in enumerate(committed)}


def test_only_offsets_of_the_source_count(admin: Any) -> None:
    admin.commits = {"b": offsets("wide", 5, -1, 7), "a": offsets("wide", 1) | offsets("other", 9), "c": offsets("other", 9)}
    assert list(read_positions(admin, "wide", None).items()) == [("a", {0: 1}), ("b", {0: 5, 2: 7})]
    assert read_positions(admin, "wide", ["b"]) == {"b": {0: 5, 2: 7}}
    assert read_positions(admin, "wide", []) == {}


def test_a_named_group_without_offsets_is_refused(admin: Any) -> None:
    with pytest.raises(MigrationError, match="group x has no committed offsets for wide: leave it out of --groups"):
        read_positions(admin, "wide", ["x"])


def test_offsets_that_cannot_be_read_end_the_migration(admin: Any) -> None:
    admin.commits = {"g": Failure(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
    with pytest.raises(MigrationError, match="the offsets of group g cannot be read: COORDINATOR_NOT_AVAILABLE"):
        read_positions(admin, "wide", None)
    with pytest.raises(MigrationError, match="the offsets of group g cannot be read: COORDINATOR_NOT_AVAILABLE"):
        commit(admin, "narrow", {"g": Carried({0: 1}, 0)})


def test_groups_with_members(admin: Any) -> None:
    admin.states = {"a": "Stable", "b": "Empty", "c": "Dead", "d": "PreparingRebalance"}
    assert with_members(admin, ["a", "b", "c", "d", "gone"]) == {"a": "Stable", "d": "PreparingRebalance"}
    admin.failures["e"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(MigrationError, match="group e cannot be described: GROUP_AUTHORIZATION_FAILED"):
        with_members(admin, ["e"])


def test_no_offset_moves_back(admin: Any) -> None:
    admin.commits = {"g": offsets("narrow", 8, 3)}
    commit(admin, "narrow", {"g": Carried({0: 5, 1: 4, 2: 0}, 0)})
    assert admin.commits["g"] == offsets("narrow", 8, 4, 0)
    commit(admin, "narrow", {"g": Carried({0: 5}, 0)})
    assert admin.commits["g"] == offsets("narrow", 8, 4, 0)


def test_a_refused_commit_is_reported_with_what_to_do(admin: Any) -> None:
    admin.refused = "g"
    with pytest.raises(
        MigrationError, match=r"offsets of group g were not committed: UNKNOWN_MEMBER_ID\. Stop the group's members, and run"
    ):
        commit(admin, "narrow", {"g": Carried({0: 5}, 0)})
