"""ListGroups and DeleteGroups."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.administration import ListedGroups
from ottla.core.groups.classic.group import ClassicGroup

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


def test_a_listed_group_has_type_state_and_protocol_type(driver: Any) -> None:
    listed = driver.in_state("Stable").answer("list").groups[0]
    assert (listed.protocol_type, listed.state, listed.group_type) == ("consumer", "Stable", "classic")


def test_only_empty_groups_are_deleted(driver: Any) -> None:
    assert driver.in_state("Stable").error("delete g") is E.NON_EMPTY_GROUP
    assert driver.error("delete unknown") is E.GROUP_ID_NOT_FOUND


def test_tombstones_remove_offsets_and_then_the_group(driver: Any) -> None:
    effects = driver.in_state("Empty").given("commit g flights/0=1 weather/1=1").do("delete g")
    assert [type(record).__name__ for record in effects.records] == ["OffsetRecord", "OffsetRecord", "GroupMetadataRecord"]
    assert all(record.value is None for record in effects.records)
    assert [event.kind for event in effects.events] == ["deleted"]
    assert driver.shell.stored.group_metadata == {}
    assert driver.shell.stored.offsets == {}
    assert driver.answer("list").groups == ()


def test_a_deletion_whose_append_fails_changes_nothing(driver: Any) -> None:
    driver.in_state("Empty")
    driver.shell.fail_next_append = E.NOT_ENOUGH_REPLICAS
    effects = driver.do("delete g")
    assert effects.replies[0].result.error is E.COORDINATOR_NOT_AVAILABLE
    assert effects.events == ()
    assert driver.error("describe g") is E.NONE


def test_groups_are_listed_by_state() -> None:
    groups = [ClassicGroup(name, now_ms=0) for name in ("a", "b")]
    assert [each.group_id for each in ListedGroups(groups, frozenset())] == ["a", "b"]
    assert [(each.state, each.group_type) for each in ListedGroups(groups, frozenset({"empty"}))] == [("Empty", "classic")] * 2
    assert len(ListedGroups(groups, frozenset({"stable"}))) == 0


def test_a_listed_group_is_read_when_its_item_is_created() -> None:
    looked = 0

    class Group(ClassicGroup):
        def __getattribute__(self, name: str) -> object:
            nonlocal looked
            looked += name == "group_id"
            return super().__getattribute__(name)

    lines = iter(ListedGroups([Group(name, now_ms=0) for name in "abc"], frozenset()))
    before = looked
    next(lines)
    assert looked == before + 1
