"""JoinGroup: checks, member ids, static members, and joins that trigger a rebalance."""

from typing import Any

import pytest

from ottla.groups.classic.states import GroupState
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(("ms", "allowed"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False), (-1, False)])
def test_the_session_timeout_has_bounds(driver: Any, ms: int, allowed: bool) -> None:
    assert GroupSettings().allows_session_timeout(ms) == allowed
    expected = E.MEMBER_ID_REQUIRED if allowed else E.INVALID_SESSION_TIMEOUT
    assert driver.error(f"join g - new=m1 session={ms}") is expected


def test_kip_394_an_id_first_and_then_the_join(driver: Any) -> None:
    observed = driver.answer("join g - new=m1")
    assert (observed.error, observed.member_id, observed.generation) == (E.MEMBER_ID_REQUIRED, "m1", -1)
    assert list(driver.group().pending) == ["m1"]
    assert driver.error("join g m1") is None
    assert list(driver.group().pending) == []
    assert list(driver.group().members) == ["m1"]


def test_kip_394_old_clients_are_added_at_once(driver: Any) -> None:
    assert driver.error("join g - new=m1 old=yes") is None
    assert driver.group().members["m1"].is_new


def test_a_refused_first_join_leaves_an_empty_group_behind_as_in_kafka(driver: Any) -> None:
    assert driver.error("join g - new=m1 type=''") is E.INCONSISTENT_GROUP_PROTOCOL
    assert [(group.group_id, group.state, group.members) for group in driver.shell.coordinator.snapshot().groups] == [("g", "Empty", ())]
    assert len(driver.shell.log) == 1
    assert driver.error("join g m1") is E.UNKNOWN_MEMBER_ID


def test_a_join_with_an_unknown_id_leaves_no_group_behind(driver: Any) -> None:
    assert driver.error("join g m1") is E.UNKNOWN_MEMBER_ID
    assert driver.shell.coordinator.snapshot().groups == ()


def test_the_first_join_writes_the_groups_record(driver: Any) -> None:
    records = driver.do("join g - new=m1").records
    assert [(record.value.generation, record.value.members) for record in records] == [(0, ())]
    assert driver.do("join g - new=m2").records == ()


def test_only_the_leader_gets_the_members(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    results = [reply.result for reply in driver.do("join g m1").replies]
    assert [(result.member_id, result.leader, len(result.members)) for result in results] == [("m1", "m1", 2), ("m2", "m1", 0)]
    assert {result.protocol_type for result in results} == {"consumer"}


def test_a_new_member_waits_for_five_minutes_at_most(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    assert driver.group().members["m2"].session.at_ms == 300_000


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_a_follower_that_repeats_itself_gets_the_same_generation(driver: Any, state: str) -> None:
    result = driver.in_state(state).answer("join g m2")
    assert (result.error, result.generation, result.leader, result.members) == (E.NONE, 2, "m1", ())
    assert driver.group().state.value == state


def test_the_order_of_protocols_is_metadata_too(driver: Any) -> None:
    both = "protocols=range:flights/roundrobin:flights"
    driver.given(f"join g - new=m1 {both}", f"join g m1 {both}", "wait 0", "sync g m1 gen=1")
    driver.given(f"join g - new=m2 {both}", f"join g m2 {both}", f"join g m1 {both}", "sync g m1 gen=2", "sync g m2 gen=2")
    assert driver.error(f"join g m2 {both}") is E.NONE
    assert driver.error("join g m2 protocols=roundrobin:flights/range:flights") is None


def test_group_max_size(make_driver: Any) -> None:
    driver = make_driver(group_max_size=1)
    driver.given("join g - new=m1", "join g - new=m2", "join g m1")
    assert driver.error("join g m2") is E.GROUP_MAX_SIZE_REACHED
    assert list(driver.group().pending) == []
    driver.wait(0)
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    assert driver.error("join g - new=m3") is E.GROUP_MAX_SIZE_REACHED
    assert driver.error("join g m1") is E.NONE


def test_a_removed_member_has_an_event(make_driver: Any) -> None:
    driver = make_driver(group_max_size=2).in_state("Stable")
    driver.given("join g m1")
    driver.group().awaiting_join_count = 2
    effects = driver.do("join g m2")
    assert (effects.events[0].trigger, effects.events[0].member_id) == ("CAPACITY", "m2")


def test_a_member_that_contradicts_itself(driver: Any) -> None:
    driver.given("join g - new=m1")
    assert driver.error("join g m1 instance=i1") is E.UNKNOWN_SERVER_ERROR


def test_the_earlier_of_two_joins_is_not_left_open(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    first = driver.requests
    assert [(reply.to, reply.result.error) for reply in driver.do("join g m2").replies] == [(first, E.REBALANCE_IN_PROGRESS)]


# Static members: replacement after a restart (KIP-345, KIP-814).


@pytest.fixture
def statics(driver: Any) -> Any:
    """s1 (leader) and s2, Stable in generation 2."""
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1", "join g - new=s2 instance=i2")
    return driver.given(
        "join g s1 instance=i1", "sync g s2 gen=2 instance=i2", "sync g s1 gen=2 instance=i1 assignment=s1:flights/0;s2:flights/1"
    )


def test_a_restart_costs_no_rebalance(statics: Any) -> None:
    effects = statics.do("join g - new=s3 instance=i2")
    result = effects.replies[0].result
    assert (result.error, result.member_id, result.generation, result.leader, result.members) == (E.NONE, "s3", 2, "s1", ())
    assert [(event.kind, event.trigger) for event in effects.events] == [("static_replaced", "STATIC_REJOIN")]
    assert statics.group().state is GroupState.STABLE
    assert [member.member_id for member in effects.records[0].value.members] == ["s1", "s3"]
    assert statics.answer("sync g s3 gen=2 instance=i2").assignment == effects.records[0].value.members[1].assignment


def test_a_returning_leader_leads_and_skips_the_assignment(statics: Any) -> None:
    result = statics.answer("join g - new=s3 instance=i1")
    assert (result.leader, result.skip_assignment, len(result.members)) == ("s3", True, 2)
    assert statics.group().leader == "s3"


def test_a_returning_leader_that_cannot_skip_gets_its_old_id_as_leader(statics: Any) -> None:
    result = statics.answer("join g - new=s3 instance=i1 skip=no")
    assert (result.leader, result.skip_assignment, result.members) == ("s1", False, ())
    assert statics.group().leader == "s3"


def test_a_follower_is_never_asked_to_skip(statics: Any) -> None:
    assert not statics.answer("join g - new=s3 instance=i2").skip_assignment


def test_nothing_changes_if_the_append_fails(statics: Any) -> None:
    statics.shell.fail_next_append = E.KAFKA_STORAGE_ERROR
    result = statics.answer("join g - new=s3 instance=i2")
    assert (result.error, result.member_id) == (E.NOT_COORDINATOR, "")
    assert statics.group().static_members == {"i1": "s1", "i2": "s2"}
    assert statics.error("heartbeat g s2 gen=2 instance=i2") is E.NONE
    assert statics.error("heartbeat g s3 gen=2 instance=i2") is E.FENCED_INSTANCE_ID


def test_the_old_sessions_end_with_the_swap(statics: Any) -> None:
    statics.wait(5_000)
    statics.given("join g - new=s3 instance=i2")
    fired = [event.member_id for effects in statics.wait(5_000) for event in effects.events]
    assert fired == ["s1"], "s2 is no member any more, and s3 has just begun"


def test_protocols_that_change_the_selection_trigger_a_rebalance(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1 protocols=a:t/b:t", "wait 0", "sync g s1 gen=1 instance=i1")
    events = driver.do("join g - new=s2 instance=i1 protocols=b:t/a:t").events
    assert (events[0].trigger, events[0].coalesced) == ("ASSIGNOR_CHANGE", False)
    assert events[0].reason.startswith("Group's selectedProtocol will change because static member s2 with instance id i1")
    assert driver.group().protocol == "b"


def test_other_protocols_with_the_same_vote_ask_for_none(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1 protocols=a:t/b:t", "wait 0", "sync g s1 gen=1 instance=i1")
    driver.given("join g - new=s2 instance=i1 protocols=a:t,u session=7s rebalance=9s")
    member = driver.group().members["s2"]
    assert driver.group().state is GroupState.STABLE
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, [name for name, _ in member.protocols]) == (7_000, 9_000, ["a"])
    assert not driver.group().supports("consumer", (("b", b""),))


def test_what_the_old_process_waits_for_is_fenced(statics: Any) -> None:
    statics.given("join g - new=s9 instance=i9")
    waiting = statics.requests
    effects = statics.do("join g - new=s10 instance=i9")
    assert [(reply.to, reply.result.error, reply.result.member_id) for reply in effects.replies] == [(waiting, E.FENCED_INSTANCE_ID, "s9")]
    assert effects.events[0].trigger == "STATIC_FENCED"


def test_a_restart_during_a_rebalance_starts_another(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0")
    effects = driver.do("join g - new=s2 instance=i1")
    assert [event.trigger for event in effects.events if event.kind == "trigger"] == ["STATIC_REJOIN"]
    assert effects.events[0].reason == "Updating metadata for static member s2 with instance id i1; client reason: not provided"
