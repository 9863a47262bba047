"""Rebalances: how they start, how long they wait, how they complete, and the events that say so."""

import json
from typing import Any

import pytest

from ottla.groups.classic.states import GroupState


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


# The events of a classic group: cause, Kafka's reason text and evidence of every trigger, and the phases of a rebalance.


def triggers(effects: Any) -> list[tuple[str, bool, str]]:
    return [(event.trigger, event.coalesced, event.reason) for event in effects.events if event.kind == "trigger"]


@pytest.mark.parametrize(
    ("state", "line", "cause", "reason"),
    [
        ("Empty", "join g - new=m9 old=yes", "JOIN_NEW", "Adding new member m9 with group instance id null; client reason: not provided"),
        (
            "Stable",
            "join g - new=s9 instance=i9 reason=hello",
            "JOIN_NEW",
            "Adding new member s9 with group instance id i9; client reason: hello",
        ),
        ("Stable", "leave g m2", "LEAVE", "explicit `LeaveGroup` request for (m2) members."),
        (
            "Stable",
            "leave g m2 reason='consumer poll timeout has expired.'",
            "POLL_TIMEOUT",
            "explicit `LeaveGroup` request for (m2) members.",
        ),
        (
            "Stable",
            "leave g m2 reason='worker poll timeout has expired.'",
            "POLL_TIMEOUT",
            "explicit `LeaveGroup` request for (m2) members.",
        ),
        ("Stable", "leave g m2 reason='member was removed by an admin'", "ADMIN_REMOVE", "explicit `LeaveGroup` request for (m2) members."),
        ("Stable", "join g m1", "LEADER_REJOIN", "Leader m1 re-joining group during Stable; client reason: not provided"),
        (
            "Stable",
            "join g m2 protocols=range:weather",
            "METADATA_UPDATE",
            "Updating metadata for member m2 during Stable; client reason: not provided",
        ),
        (
            "CompletingRebalance",
            "join g m2 protocols=range:weather",
            "METADATA_UPDATE",
            "Updating metadata for member m2 during CompletingRebalance; client reason: not provided",
        ),
        (
            "Stable",
            "join g m2 protocols=other:flights/range:flights",
            "ASSIGNOR_CHANGE",
            "Updating metadata for member m2 during Stable; client reason: not provided",
        ),
    ],
)
def test_causes_and_kafkas_reasons(driver: Any, state: str, line: str, cause: str, reason: str) -> None:
    driver.in_state(state)
    effects = driver.do(line)
    assert triggers(effects) == [(cause, False, reason)]
    assert f"(reason: {reason})." in "".join(effects.log_lines)


def test_an_expired_member_has_the_age_of_its_heartbeat_as_evidence(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(3_000)
    driver.given("heartbeat g m2 gen=2")
    fired = driver.wait(7_000)
    event = fired[0].events[0]
    assert (event.trigger, event.member_id, event.reason) == ("EXPIRE_HEARTBEAT", "m1", "removing member m1 on heartbeat expiration.")
    assert event.evidence["last_heartbeat_age_ms"] == 10_000
    assert event.evidence["session_timeout_ms"] == 10_000
    assert fired[0].log_lines[0] == "Member m1 in group g has failed, removing it from the group."


def test_every_trigger_has_an_event_though_only_the_first_starts_the_rebalance(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    assert triggers(driver.do("join g - new=m3 old=yes"))[0][:2] == ("JOIN_NEW", True)
    assert triggers(driver.do("leave g m3"))[0][:2] == ("LEAVE", True)
    assert triggers(driver.do("join g m1")) == [], "an answer to the call is no trigger"


def test_a_batch_of_leaves_is_one_rebalance_and_one_event_each(driver: Any) -> None:
    driver.in_state("Stable")
    effects = driver.do("leave g m1 m2")
    observed = [(event.kind, event.member_id, event.coalesced) for event in effects.events]
    assert observed == [("trigger", "m1", False), ("trigger", "m2", True), ("emptied", None, False)]


def test_the_phases_of_a_rebalance_have_their_durations(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    driver.wait(2_500)
    formed = driver.do("join g m1").events[-1]
    assert (formed.kind, formed.generation, formed.at_ms, formed.evidence["join_phase_ms"]) == ("join_completed", 2, 2_500, 2_500)
    assert [member.member_id for member in formed.members] == ["m1", "m2"]
    driver.wait(1_500)
    synced = driver.do("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1").events[-1]
    assert (synced.kind, synced.at_ms, synced.evidence["sync_phase_ms"]) == ("sync_completed", 4_000, 1_500)
    assert [dict(member.assignment) for member in synced.members] == [{"flights": (0,)}, {"flights": (1,)}]


def test_a_subscription_change_has_its_evidence(driver: Any) -> None:
    driver.in_state("Stable")
    event = driver.do("join g m2 protocols=range:weather,trains").events[0]
    assert (event.evidence["topics_added"], event.evidence["topics_removed"]) == (2, 1)


def test_events_are_json(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    for event in driver.do("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1").events:
        assert json.loads(json.dumps(event.to_dict()))["group"] == "g"
    for event in driver.do("leave g m2").events:
        assert json.loads(json.dumps(event.to_dict()))["trigger"] == "LEAVE"
