"""Summaries of groups."""

from typing import Any

import pytest

from ottla.core.groups.summaries import (
    GroupSummary,
    MemberAssignment,
    assignments,
    committed_offsets,
    group_ids,
    offsets_committed,
    summarize_group,
)


def test_a_summary_counts(driver: Any) -> None:
    driver.in_state("Stable").given("join g - new=s1 instance=i1", "join g - new=p1")
    coordinator = driver.shell.coordinator
    assert group_ids(coordinator) == ["g"]
    assert summarize_group(coordinator, "g") == GroupSummary("g", "PreparingRebalance", 2, "consumer", "range", 3, 1, 1, 0)
    assert summarize_group(coordinator, "h") is None


def test_committed_offsets_by_topic(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=7 flights/1=9")
    ((topic, partitions, values),) = committed_offsets(driver.shell.coordinator, "g")
    assert (topic, partitions, [value.offset for value in values]) == ("flights", [0, 1], [7, 9])
    assert not committed_offsets(driver.shell.coordinator, "h")


@pytest.mark.conformance("OffsetMetadataManagerTest.testOffsetCommitsSensor")
def test_commits_are_counted(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=7 flights/1=9", "commit g m1 gen=1 flights/0=8", "commit h flights/0=1")
    coordinator = driver.shell.coordinator
    counts = [each.offset_commits for group_id in "gh" if (each := summarize_group(coordinator, group_id)) is not None]
    assert (counts, offsets_committed(coordinator)) == ([2, 1], 3), "a commit that is refused does not count"
    driver.given("delete h")
    assert summarize_group(coordinator, "h") is None
    assert offsets_committed(coordinator) == 3


def test_assignments_are_read_while_the_group_is_stable(driver: Any) -> None:
    driver.in_state("Stable")
    coordinator = driver.shell.coordinator
    first, second = assignments(coordinator, "g") or ()
    host = driver.group().members["m1"].client_host
    assert first == MemberAssignment("m1", driver.group().members["m1"].client_id, host, (("flights", 0),))
    assert (second.member_id, second.partitions) == ("m2", (("flights", 1),))
    driver.given("join g m1")
    assert assignments(coordinator, "g") is None
    assert assignments(coordinator, "h") is None
