"""The events of a classic group: cause, Kafka's reason text and evidence of every trigger, and the phases of a rebalance."""

import json
from typing import Any

import pytest


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
