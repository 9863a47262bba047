"""On the wire: the five states of a group as members and observers see them, and the session timeouts that are accepted."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember


def test_a_group_passes_through_five_states(
    raw_client: RawClient,
    new_member: Callable[[str], RawMember],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
) -> None:
    group = unique_name("group")
    first, second = new_member(group), new_member(group)

    def state() -> str:
        return str(described(group).group_state)

    assert state() == "Dead", "an unknown group"

    answer = first.join()
    assert answer.error_code == ErrorCode.NONE
    assert state() == "CompletingRebalance", "the members are known, the plan is not"
    assert (first.generation, answer.leader) == (1, first.member_id)
    assert first.sync({first.member_id: b"all"}) == (ErrorCode.NONE, b"all")
    assert state() == "Stable"
    assert first.heartbeat() == ErrorCode.NONE

    joining = background(second.join)
    wait_until(lambda: state() == "PreparingRebalance", "the second member starts a rebalance")
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    answer = first.join()
    assert (answer.error_code, joining.result(60).error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (first.generation, second.generation) == (2, 2), "each rebalance raises the generation by one"
    follower, leader = (first, second) if answer.leader == second.member_id else (second, first)
    waiting = background(follower.sync)
    assert leader.sync({leader.member_id: b"mine", follower.member_id: b"yours"}) == (ErrorCode.NONE, b"mine")
    assert waiting.result(60) == (ErrorCode.NONE, b"yours"), "each member gets its own part alone"
    assert state() == "Stable"

    assert second.leave() == ErrorCode.NONE
    assert state() == "PreparingRebalance"
    assert first.leave() == ErrorCode.NONE
    wait_until(lambda: state() == "Empty", "the last member is gone")
    (deleted,) = raw_client.call(ApiKey.DELETE_GROUPS, 1, groups_names=[group]).results
    assert deleted.error_code == ErrorCode.NONE
    assert state() == "Dead"


def test_commits_of_an_older_generation_are_refused(
    new_member: Callable[[str], RawMember],
    unique_name: Callable[[str], str],
    group_commit: Callable[..., int],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    group_commit(unique_name("another-group"), topic, 0, 0)
    member = new_member(group)
    for generation in (1, 2, 3):
        assert member.join().error_code == ErrorCode.NONE
        assert member.generation == generation
        assert member.sync({member.member_id: b"all"}) == (ErrorCode.NONE, b"all")
        assert member.commit(topic, 0, 1) == ErrorCode.NONE
        for wrong in (generation - 1, generation + 1):
            member.generation = wrong
            assert member.commit(topic, 0, 1) == ErrorCode.ILLEGAL_GENERATION
    stranger = new_member(group)
    stranger.member_id, stranger.generation = "unknown", 3
    assert stranger.commit(topic, 0, 1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(
    new_member: Callable[[str], RawMember], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    assert new_member(unique_name("group")).join(session_timeout_ms=session_timeout_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_the_bounds_is_accepted(
    new_member: Callable[[str], RawMember], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    member = new_member(unique_name("group"))
    assert member.join(session_timeout_ms=session_timeout_ms).error_code == ErrorCode.NONE
    assert member.leave() == ErrorCode.NONE


def test_a_client_gets_the_error_of_its_bad_session_timeout(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import InvalidSessionTimeoutError

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
