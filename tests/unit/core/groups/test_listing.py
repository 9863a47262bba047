"""ListGroups, DescribeGroups, DeleteGroups."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        ("list", ["g", "simple"]),
        ("list states=' STABLE '", ["g"]),
        ("list states=Empty", ["simple"]),
        ("list states=Dead", []),
        ("list states=stable,empty types=Classic", ["g", "simple"]),
        ("list types=consumer", []),
        ("list types=nonsense", []),
    ],
)
def test_filters(driver: Any, line: str, groups: list[str]) -> None:
    driver.in_state("Stable").given("commit simple flights/0=1")
    assert [each.group_id for each in driver.answer(line).groups] == groups


def test_lines_of_the_list(driver: Any) -> None:
    listed = driver.in_state("Stable").answer("list").groups[0]
    assert (listed.protocol_type, listed.state, listed.group_type) == ("consumer", "Stable", "classic")


def test_an_unknown_group_is_dead_and_newer_clients_are_told_why(driver: Any) -> None:
    new = driver.answer("describe g")
    assert (new.error, new.state, new.error_message) == (E.GROUP_ID_NOT_FOUND, "Dead", "Group g not found.")
    old = driver.answer("describe g old=yes")
    assert (old.error, old.state, old.error_message) == (E.NONE, "Dead", None)


def test_a_stable_group_is_described_in_full(driver: Any) -> None:
    described = driver.in_state("Stable").answer("describe g")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first = described.members[0]
    assert (first.member_id, first.client_id, first.client_host) == ("m1", "client", "/127.0.0.1")
    assert first.metadata
    assert first.assignment


def test_only_empty_groups_are_deleted(driver: Any) -> None:
    assert driver.in_state("Stable").error("delete g") is E.NON_EMPTY_GROUP
    assert driver.error("delete unknown") is E.GROUP_ID_NOT_FOUND


def test_s2_5_tombstones_remove_offsets_and_then_the_group(driver: Any) -> None:
    effects = driver.in_state("Empty").given("commit g flights/0=1 weather/1=1").do("delete g")
    assert [type(record).__name__ for record in effects.records] == ["OffsetRecord", "OffsetRecord", "GroupMetadataRecord"]
    assert all(record.value is None for record in effects.records)
    assert [event.kind for event in effects.events] == ["deleted"]
    assert driver.shell.stored.registrations == {}
    assert driver.shell.stored.offsets == {}
    assert driver.answer("list").groups == ()


def test_a_deletion_that_cannot_be_kept_did_not_happen(driver: Any) -> None:
    driver.in_state("Empty")
    driver.shell.fail_next_append = E.NOT_ENOUGH_REPLICAS
    effects = driver.do("delete g")
    assert effects.replies[0].result.error is E.COORDINATOR_NOT_AVAILABLE
    assert effects.events == ()
    assert driver.error("describe g") is E.NONE
