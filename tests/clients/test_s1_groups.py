"""S1.5 and S1.6 on the wire: the five states of a group as its members and its watchers see them, and the session timeouts it accepts."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.testing.raw_client import RawClient
from ottla.testing.raw_member import RawMember

DELETE_GROUPS = 42
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 0, 22, 25, 26, 27


def test_s1_5_a_group_passes_through_five_states(
    raw_client: RawClient,
    new_member: Callable[[str], RawMember],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    wait_until: Callable[..., None],
) -> None:
    group = unique_name("group")
    first, second = new_member(group), new_member(group)

    def state() -> str:
        return str(described(group).group_state)

    assert state() == "Dead", "nobody has heard of it"

    answer = first.join()
    assert answer.error_code == NONE
    assert state() == "CompletingRebalance", "the members are known, the plan is not"
    assert (first.generation, answer.leader) == (1, first.member_id)
    assert first.sync({first.member_id: b"all"}) == (NONE, b"all")
    assert state() == "Stable"
    assert first.heartbeat() == NONE

    joining = background(second.join)
    wait_until(lambda: state() == "PreparingRebalance", "the second member starts a rebalance")
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    answer = first.join()
    assert (answer.error_code, joining.result(10).error_code) == (NONE, NONE)
    assert (first.generation, second.generation) == (2, 2), "each rebalance raises the generation by one"
    follower, leader = (first, second) if answer.leader == second.member_id else (second, first)
    waiting = background(follower.sync)
    assert leader.sync({leader.member_id: b"mine", follower.member_id: b"yours"}) == (NONE, b"mine")
    assert waiting.result(10) == (NONE, b"yours"), "each member gets its own part alone"
    assert state() == "Stable"

    assert second.leave() == NONE
    assert state() == "PreparingRebalance"
    assert first.leave() == NONE
    wait_until(lambda: state() == "Empty", "the last member is gone")
    (deleted,) = raw_client.call(DELETE_GROUPS, 1, groups_names=[group]).results
    assert deleted.error_code == NONE
    assert state() == "Dead"


def test_s1_5_commits_of_an_older_generation_are_refused(
    new_member: Callable[[str], RawMember],
    unique_name: Callable[[str], str],
    group_commit: Callable[..., int],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    group_commit(unique_name("another-group"), topic, 0, 0)
    member = new_member(group)
    for generation in (1, 2, 3):
        assert member.join().error_code == NONE
        assert member.generation == generation
        assert member.sync({member.member_id: b"all"}) == (NONE, b"all")
        assert member.commit(topic, 0, 1) == NONE
        for wrong in (generation - 1, generation + 1):
            member.generation = wrong
            assert member.commit(topic, 0, 1) == ILLEGAL_GENERATION
    stranger = new_member(group)
    stranger.member_id, stranger.generation = "nobody", 3
    assert stranger.commit(topic, 0, 1) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_s1_6_a_session_timeout_out_of_bounds_is_refused(
    new_member: Callable[[str], RawMember], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    assert new_member(unique_name("group")).join(session_timeout_ms=session_timeout_ms).error_code == INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_s1_6_a_session_timeout_at_the_bounds_is_accepted(
    new_member: Callable[[str], RawMember], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    member = new_member(unique_name("group"))
    assert member.join(session_timeout_ms=session_timeout_ms).error_code == NONE
    assert member.leave() == NONE


def test_s1_6_a_client_hears_of_its_bad_session_timeout(kafka_broker: Any, unique_name: Callable[[str], str], wait_until: Any) -> None:
    from kafka.errors import InvalidSessionTimeoutError

    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        unique_name("topic"),
        bootstrap_servers=kafka_broker.bootstrap_servers,
        group_id=unique_name("group"),
        session_timeout_ms=5_000,
        heartbeat_interval_ms=200,
    )
    with pytest.raises(InvalidSessionTimeoutError):
        wait_until(lambda: False, "the refusal", lambda: consumer.poll(timeout_ms=100))
    consumer.close()
