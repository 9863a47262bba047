"""Static members: replacement after a restart (KIP-345, KIP-814)."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.states import GroupState

E = ErrorCode


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
