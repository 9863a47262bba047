"""Loading and unloading: groups are created from the log, and parked requests are answered when they are unloaded."""

from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.commands import Resign
from ottla.testing.scenarios.commands import parse_command

E = ErrorCode


def test_members_offsets_and_generation_come_back(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=42")
    driver.now_ms = 5_000
    effects = driver.shell.restart(driver.now_ms)
    assert [(event.kind, event.state_to, event.generation) for event in effects.events] == [("loaded", "Stable", 2)]
    assert [dict(member.assignment) for member in effects.events[0].members] == [{"flights": (0,)}, {"flights": (1,)}]
    assert {timer.key: timer.at_ms for timer in effects.timers} == {"session g m1": 15_000, "session g m2": 15_000}
    assert driver.error("heartbeat g m2 gen=2") is E.NONE
    assert driver.answer("fetch g flights/0").topics[0][1][0].offset == 42


def test_a_rebalance_in_progress_is_lost(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    driver.shell.restart(0)
    assert (driver.group().state, driver.group().generation) == (GroupState.STABLE, 1)
    assert list(driver.group().members) == ["m1"]


def test_handed_out_ids_are_lost_at_a_restart(driver: Any) -> None:
    driver.given("join g - new=m1")
    driver.shell.restart(0)
    assert driver.error("join g m1") is E.UNKNOWN_MEMBER_ID


def test_offsets_without_a_group_record_create_a_simple_group(driver: Any) -> None:
    driver.given("commit g flights/0=42")
    driver.shell.restart(0)
    assert driver.answer("describe g").state == "Empty"


def test_a_group_over_capacity_rebalances(make_driver: Any) -> None:
    small = make_driver(group_max_size=1)
    small.shell.log = make_driver().in_state("Stable").shell.log
    effects = small.shell.restart(0)
    assert [event.trigger for event in effects.events if event.kind == "trigger"] == ["CAPACITY"]
    assert effects.events[1].reason.startswith("Freshly-loaded group g (size 2) is over capacity 1. Rebalancing")
    assert small.group().state is GroupState.PREPARING_REBALANCE


def test_resigning_answers_every_parked_request(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2", "join other - new=x1 old=yes")
    replies = driver.run(Resign()).replies
    assert [(reply.to, reply.result.error) for reply in replies] == [
        (driver.requests - 1, E.NOT_COORDINATOR),
        (driver.requests, E.NOT_COORDINATOR),
    ]
    assert driver.shell.coordinator.next_deadline_ms() is None
    assert driver.shell.coordinator.snapshot().groups == ()


def test_nothing_is_served_while_loading(driver: Any) -> None:
    driver.in_state("Stable").shell.begin_loading()
    coordinator = driver.shell.coordinator
    effects = coordinator.handle(parse_command("commit g m1 gen=2 flights/0=1", 99), now_ms=0)
    assert effects.records == ()
    assert effects.replies[0].result.errors == (E.COORDINATOR_LOAD_IN_PROGRESS,)


def test_protocols_missing_in_the_record_are_not_an_assignor_change(driver: Any) -> None:
    both = "protocols=range:flights/sticky:flights"
    driver.given(f"join g - new=m1 {both}", f"join g m1 {both}", "wait 0", "sync g m1 gen=1")
    driver.given(f"join g - new=m2 {both}", f"join g m2 {both}", f"join g m1 {both}", "sync g m1 gen=2", "sync g m2 gen=2")
    driver.shell.restart(0)
    assert [event.trigger for event in driver.do(f"join g m2 {both}").events] == ["METADATA_UPDATE"]
    driver.given(f"join g m1 {both}", "sync g m1 gen=3", "sync g m2 gen=3")
    assert [event.trigger for event in driver.do("join g m2 protocols=range:flights").events] == ["ASSIGNOR_CHANGE"]
