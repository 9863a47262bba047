"""The coordinator's face: decide, append, replay, reply, and nothing in between."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.groups.commands import FinishLoading, ForgetTopics, Resign
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.gate import CoordinatorStatus
from ottla.core.groups.settings import GroupSettings
from ottla.testing.scenario_commands import parse_command


def serving() -> Coordinator:
    coordinator = Coordinator(GroupSettings(), partition=12, node_id=3)
    coordinator.handle(FinishLoading(), now_ms=0)
    return coordinator


def test_its_status_runs_from_loading_to_resigned() -> None:
    coordinator = Coordinator(GroupSettings())
    assert coordinator.status is CoordinatorStatus.LOADING
    coordinator.handle(FinishLoading(), now_ms=0)
    assert coordinator.status is CoordinatorStatus.ACTIVE
    coordinator.handle(Resign(), now_ms=0)
    assert coordinator.status is CoordinatorStatus.RESIGNED
    with pytest.raises(AssertionError):
        coordinator.handle(FinishLoading(), now_ms=0)


def test_handle_changes_nothing_durable_before_replay() -> None:
    coordinator = serving()
    effects = coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    assert coordinator.view().groups == ()
    for record in effects.records:
        coordinator.replay(record)
    assert coordinator.view().groups[0].offsets["flights"][0].offset == 42


def test_no_command_may_come_before_the_last_one_is_decided() -> None:
    coordinator = serving()
    coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    with pytest.raises(AssertionError):
        coordinator.handle(parse_command("fetch g", 2), now_ms=5)
    with pytest.raises(AssertionError):
        coordinator.fire_timers(now_ms=5)


def test_a_record_that_nobody_asked_for_is_our_mistake() -> None:
    coordinator = serving()
    effects = coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    coordinator.replay(effects.records[0])
    with pytest.raises(AssertionError):
        coordinator.replay(effects.records[0])


def test_timers_fire_one_at_a_time(driver: Any) -> None:
    driver.in_state("Stable")
    coordinator = driver.shell.coordinator
    assert coordinator.next_deadline_ms() == 10_000
    assert coordinator.fire_timers(now_ms=9_999).events == ()
    first = coordinator.fire_timers(now_ms=10_000)
    assert [event.trigger for event in first.events] == ["EXPIRE_HEARTBEAT"]
    assert coordinator.next_deadline_ms() == 10_000


def test_without_groups_nothing_is_ever_due() -> None:
    assert serving().next_deadline_ms() is None
    assert serving().fire_timers(now_ms=10**9).events == ()


def test_log_lines_have_kafkas_prefix() -> None:
    assert serving().log_prefix == "[GroupCoordinator id=3 topic=__consumer_offsets partition=12] "


@pytest.mark.parametrize(
    "line", ["commit {long} flights/0=1", "commit g {long}/0=1", "join {long} - new=m1", "join g - new=m1 client={long}"]
)
def test_strings_that_no_record_could_hold_are_the_peers_fault(driver: Any, line: str) -> None:
    with pytest.raises(PeerError):
        driver.do(line.format(long="x" * 40_000))
    assert driver.shell.coordinator.view().groups == ()
    assert driver.error("fetch g") is ErrorCode.NONE


def test_deleted_topics_do_not_concern_a_coordinator_that_does_not_serve() -> None:
    coordinator = Coordinator(GroupSettings())
    assert coordinator.handle(ForgetTopics(topics=("flights",)), now_ms=0).records == ()


def test_a_deleted_group_takes_its_timers_with_it(driver: Any) -> None:
    driver.in_state("Empty").given("join g - new=m9", "delete g")
    assert driver.shell.coordinator.next_deadline_ms() is None
