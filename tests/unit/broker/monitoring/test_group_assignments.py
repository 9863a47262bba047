"""Assignments as the metrics show them: read once a generation, empty while a group rebalances."""

import pytest

from ottla.broker.monitoring.group_assignments import GroupAssignment, GroupAssignments
from ottla.broker.monitoring.group_snapshot import TopicRow
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.groups.snapshots import GroupSummary, MemberAssignment

COORDINATOR = GroupCoordinator(GroupSettings())
MEMBERS = (
    MemberAssignment("m1", "c", "/h", (("t", 0), ("t", 1), ("u", 0))),
    MemberAssignment("m2", "c", "/h", (("t", 2),)),
    MemberAssignment("m3", "d", "/i", ()),
)


def group(state: str = "Stable", generation: int = 1) -> GroupSummary:
    return GroupSummary("g", state, generation, "consumer", "range", 3, 0, 0, 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose members were read."""
    found: list[str] = []

    def read(_coordinator: GroupCoordinator, group_id: str) -> tuple[MemberAssignment, ...]:
        found.append(group_id)
        return MEMBERS

    monkeypatch.setattr(GroupCoordinator, "assignments", read)
    return found


def test_an_assignment_has_owners_counts_by_topic_and_members_without_partitions(reads: list[str]) -> None:
    found = GroupAssignments().of(COORDINATOR, group())
    assert found.owners == {
        ("t", 0): ("m1", "c", "/h"), ("t", 1): ("m1", "c", "/h"), ("u", 0): ("m1", "c", "/h"), ("t", 2): ("m2", "c", "/h"),
    }  # fmt: skip
    assert found.topics == (TopicRow("t", 2, 3), TopicRow("u", 1, 1))
    assert found.empty_members == 1


def test_it_is_read_once_a_generation(reads: list[str]) -> None:
    assignments = GroupAssignments()
    first = assignments.of(COORDINATOR, group())
    assert assignments.of(COORDINATOR, group()) is first
    assert assignments.of(COORDINATOR, group(generation=2)).generation == 2
    assert reads == ["g", "g"]


def test_while_a_group_rebalances_no_partition_has_an_owner(reads: list[str]) -> None:
    assignments = GroupAssignments()
    assignments.of(COORDINATOR, group())
    assert assignments.of(COORDINATOR, group("PreparingRebalance")) == GroupAssignment(1, {}, (), 3)
    assignments.of(COORDINATOR, group())
    assert reads == ["g", "g"], "it is read again afterwards"


def test_groups_that_are_not_kept_are_forgotten(reads: list[str]) -> None:
    assignments = GroupAssignments()
    assignments.of(COORDINATOR, group())
    assignments.keep(["g", "h"])
    assignments.of(COORDINATOR, group())
    assignments.keep(["h"])
    assignments.of(COORDINATOR, group())
    assert reads == ["g", "g"]
