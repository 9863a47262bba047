"""`ottla groups --list` on a real broker."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.groups.failures import UsageProblem
from ottla.cli.groups.listing import parse_states, parse_types


@pytest.fixture
def listed(new_groups: Any, member: Any) -> Any:
    """A broker with a simple group, a stable one, and one of another kind."""
    new_groups.topic("t")
    new_groups.commit("simple", "t", {0: 0})
    new_groups.members("stable", member("reader", {"t": [0]}))
    new_groups.members("connect", member("worker"), protocol_type="connect")
    return new_groups


@pytest.mark.conformance(
    "ListConsumerGroupTest.testListConsumerGroupsWithoutFilters", "ListConsumerGroupTest.testListGroupCommandClassicProtocol"
)
def test_names_alone_sorted_and_only_groups_of_consumers(listed: Any) -> None:
    assert listed.run("--list") == (0, "simple\nstable\n", "")


@pytest.mark.conformance("ListConsumerGroupTest.testListConsumerGroupsWithStates")
def test_states(listed: Any) -> None:
    ran = listed.run("--list", "--state")
    assert ran.titles == ["GROUP", "STATE"]
    assert ran.rows == [["simple", "Empty"], ["stable", "Stable"]]
    assert listed.run("--list", "--state", "sTaBlE").rows == [["stable", "Stable"]]
    assert listed.run("--list", "--state", "Empty, Stable").rows == [["simple", "Empty"], ["stable", "Stable"]]
    assert listed.run("--list", "--state", "PreparingRebalance").rows == []
    assert listed.run("--list", "--state=").rows == [["simple", "Empty"], ["stable", "Stable"]]


@pytest.mark.conformance("ListConsumerGroupTest.testListConsumerGroupsWithTypesClassicProtocol")
def test_types(listed: Any) -> None:
    ran = listed.run("--list", "--type")
    assert ran.titles == ["GROUP", "TYPE"]
    assert ran.rows == [["simple", "Classic"], ["stable", "Classic"]]
    assert listed.run("--list", "--type", "classic").rows == ran.rows
    assert listed.run("--list", "--type", "consumer").rows == []
    assert listed.run("--list", "--type", "--state", "empty").rows == [["simple", "Classic", "Empty"]]


def test_json(listed: Any) -> None:
    expected = [{"group": "simple", "type": "Classic", "state": "Empty"}, {"group": "stable", "type": "Classic", "state": "Stable"}]
    assert listed.run("--list", "--json").document == {"groups": expected}


def test_the_name_column_is_ten_wider_than_the_longest_name(groups: Any, name: Callable[[str], str]) -> None:
    group = groups.commit(name("g" * 40), groups.topic(name("t")), {0: 0})
    lines = groups.run("--list", "--state").out.splitlines()
    assert lines[0] == f"{'GROUP':{len(group) + 10}} {'STATE':20}"
    assert f"{group}{' ' * 11}{'Empty':20}" in lines


@pytest.mark.conformance("ListConsumerGroupTest.testListWithUnrecognizedNewConsumerOption")
def test_an_option_that_is_none(groups: Any) -> None:
    ran = groups.run("--new-consumer", "--list")
    assert (ran.status, ran.out) == (1, "")
    assert "No such option" in ran.err


@pytest.mark.conformance("ListConsumerGroupTest.testConsumerGroupStatesFromString")
def test_states_from_text() -> None:
    assert parse_states("Stable") == ["Stable"]
    assert parse_states("stable, PreparingRebalance") == ["Stable", "PreparingRebalance"]
    assert parse_states("Dead,CompletingRebalance") == ["Dead", "CompletingRebalance"]
    assert parse_states("assigning, RECONCILING") == ["Assigning", "Reconciling"]
    for wrong in ("bad, wrong", "  bad, Stable", "   ,   ,", "Unknown"):
        with pytest.raises(UsageProblem, match="Invalid state list"):
            parse_states(wrong)


@pytest.mark.conformance("ListConsumerGroupTest.testConsumerGroupTypesFromString")
def test_types_from_text() -> None:
    assert parse_types("consumer") == ["Consumer"]
    assert parse_types("Consumer, classic") == ["Consumer", "Classic"]
    for wrong in ("bad, wrong", "  bad, generic", "   ,   ,", "Share", "Streams", "unknown"):
        with pytest.raises(UsageProblem, match="Invalid types list"):
            parse_types(wrong)
