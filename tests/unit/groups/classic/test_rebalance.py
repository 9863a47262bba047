"""Rebalances: how they start, how long they wait, how they complete."""

from typing import Any

import pytest

from ottla.core.groups.classic.states import GroupState


def joined_at(fired: list[Any]) -> list[int]:
    return [event.at_ms for effects in fired for event in effects.events if event.kind == "join_completed"]


def test_the_initial_delay_is_extended_while_members_arrive(make_driver: Any) -> None:
    driver = make_driver(group_initial_rebalance_delay_ms=3_000)
    driver.given("join g - new=m1 old=yes rebalance=8s")
    driver.wait(2_000)
    driver.given("join g - new=m2 old=yes rebalance=8s")
    assert joined_at(driver.wait(2_000)) == []
    driver.given("join g - new=m3 old=yes rebalance=8s")
    assert joined_at(driver.wait(10_000)) == [8_000], "never longer than the rebalance timeout"


def test_the_initial_delay_ends_when_no_other_member_joins(make_driver: Any) -> None:
    driver = make_driver(group_initial_rebalance_delay_ms=3_000)
    driver.given("join g - new=m1 old=yes")
    assert joined_at(driver.wait(10_000)) == [3_000]


def test_the_initial_delay_does_not_end_when_all_have_joined(make_driver: Any) -> None:
    driver = make_driver(group_initial_rebalance_delay_ms=3_000)
    driver.given("join g - new=m1 old=yes", "join g - new=m2 old=yes", "leave g m2")
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_a_later_rebalance_completes_as_soon_as_all_have_joined(driver: Any) -> None:
    driver.in_state("PreparingRebalance").given("join g m1")
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    assert driver.group().join_timer.at_ms is None


def test_a_rebalance_waits_for_ids_that_were_handed_out(driver: Any) -> None:
    driver.in_state("PreparingRebalance").given("join g - new=m3", "join g m1")
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.given("leave g m3")
    assert driver.group().state is GroupState.COMPLETING_REBALANCE


def test_members_that_do_not_join_in_time_are_removed(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    for _ in range(12):
        driver.wait(5_000)
        driver.given("heartbeat g m1 gen=1")
    assert list(driver.group().members) == ["m2"]
    assert (driver.group().leader, driver.group().generation) == ("m2", 2)


def test_static_members_may_miss_a_rebalance(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1 session=5m", "wait 0", "sync g s1 gen=1 instance=i1")
    driver.given("join g - new=m1", "join g m1")
    driver.wait(60_000)
    assert list(driver.group().members) == ["s1", "m1"]
    assert driver.group().leader == "m1"
    assert driver.group().members["s1"].session.at_ms == 360_000


def test_a_rebalance_that_no_member_joins_is_prolonged(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1 session=5m", "wait 0", "sync g s1 gen=1 instance=i1")
    driver.given("join g - new=m1", "join g m1", "leave g m1")
    driver.wait(60_000)
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    assert driver.group().join_timer.at_ms == 120_000
    assert driver.group().generation == 1


def test_a_new_rebalance_answers_parked_syncs(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    waiting = driver.requests
    replies = driver.do("join g - new=m3 old=yes").replies
    assert [(reply.to, reply.result.error.name) for reply in replies] == [(waiting, "REBALANCE_IN_PROGRESS")]
    assert driver.group().sync_timer.at_ms is None
    assert list(driver.group().pending_sync) == []


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_each_generation_is_one_more(driver: Any, state: str) -> None:
    before = driver.in_state(state).group().generation
    driver.given("leave g m1 m2")
    assert driver.group().generation == before + 1
    assert driver.group().state is GroupState.EMPTY


def test_each_rebalance_raises_the_generation_by_one(driver: Any) -> None:
    driver.in_state("Stable")
    generations = []
    for _ in range(3):
        driver.given("join g m1", "join g m2")
        generations.append(driver.group().generation)
        driver.given(f"sync g m1 gen={generations[-1]}", f"sync g m2 gen={generations[-1]}")
    assert generations == [3, 4, 5]


def test_the_empty_group_is_written_down(driver: Any) -> None:
    record = driver.in_state("Stable").do("leave g m1 m2").records[0]
    value = record.value
    assert (value.generation, value.protocol, value.leader, value.members, value.protocol_type) == (3, None, None, (), "consumer")


def test_silent_static_members_without_a_rebalance_timeout_do_not_keep_the_coordinator_busy(driver: Any) -> None:
    driver.given("join g - new=m1 rebalance=60s", "join g m1", "join g - new=s1 instance=i1 rebalance=0", "wait 3000")
    driver.given("sync g s1 instance=i1 gen=1", "sync g m1 gen=1 assignment=s1:flights/0", "leave g m1")
    fired = []
    while driver.shell.coordinator.next_deadline_ms() <= driver.now_ms:
        fired.append(driver.shell.fire_timers(driver.now_ms))
        assert len(fired) < 10, "the same moment brings another rebalance without end"
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.wait(10_000)
    assert driver.group().state is GroupState.EMPTY, "the static member's session ends it"


def test_the_generation_after_the_last_one_is_a_generation(driver: Any) -> None:
    driver.in_state("Stable").group().generation = 2**31 - 1
    driver.given("leave g m1 m2")
    assert driver.group().generation == -(2**31), "as in Java, and as a record can hold it"
    assert driver.shell.stored.group_metadata["g"].generation == -(2**31)
