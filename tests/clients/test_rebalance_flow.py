"""On the wire, on both brokers: how members learn of a rebalance, and how it proceeds."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_subscription


def test_from_notice_to_work(
    new_member: Callable[[str], RawMember],
    group_commit: Callable[..., int],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    assert group_commit(unique_name("another"), topic, 0, 0) == ErrorCode.NONE, "the topic is there"
    first, second = new_member(group), new_member(group)
    assert first.join().error_code == ErrorCode.NONE
    assert first.sync({first.member_id: b"all"}) == (ErrorCode.NONE, b"all")

    joining = background(second.join, [("range", encode_subscription(["arrivals"]))])
    wait_until(lambda: described(group).group_state == "PreparingRebalance", "the second member asks to join")
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the notice"
    assert first.commit(topic, 0, 41) == ErrorCode.NONE, "on notice it commits what it has done"
    assert not joining.done(), "the coordinator waits for the first"

    led = first.join([("range", encode_subscription(["departures"]))])
    answer = joining.result(60)
    assert (first.generation, second.generation) == (2, 2)
    assert led.leader == answer.leader == first.member_id, "who joined the group first leads"
    assert {each.member_id: bytes(each.metadata) for each in led.members} == {
        first.member_id: encode_subscription(["departures"]),
        second.member_id: encode_subscription(["arrivals"]),
    }, "the leader gets all subscriptions"
    assert not answer.members, "only the leader gets the members"

    syncing = background(second.sync)
    wait_until(lambda: described(group).group_state == "CompletingRebalance", "no plan yet")
    assert first.sync({first.member_id: b"departures", second.member_id: b"arrivals"}) == (ErrorCode.NONE, b"departures")
    assert syncing.result(60) == (ErrorCode.NONE, b"arrivals"), "each member gets its own assignment"
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE), "work resumes"
    assert first.commit(topic, 0, 42) == ErrorCode.NONE
    first.generation = 1
    assert first.commit(topic, 0, 43) == ErrorCode.ILLEGAL_GENERATION


def test_the_coordinator_waits_up_to_the_rebalance_timeout(
    new_member: Callable[[str], RawMember], background: Callable[..., Future[Any]], unique_name: Callable[[str], str]
) -> None:
    group = unique_name("group")
    silent, second = new_member(group), new_member(group)
    assert silent.join(session_timeout_ms=60_000, rebalance_timeout_ms=700).error_code == ErrorCode.NONE
    assert silent.sync({silent.member_id: b"all"}) == (ErrorCode.NONE, b"all")
    began = time.monotonic()
    answer = second.join(rebalance_timeout_ms=700)
    waited_s = time.monotonic() - began
    assert (answer.error_code, answer.leader, second.generation) == (ErrorCode.NONE, second.member_id, 2)
    assert 0.6 < waited_s < 20, "and then goes on without the silent one"
    assert silent.heartbeat() == 25, "which is no member any more"


@pytest.mark.parametrize("heartbeat_ms", [200, 2_000])
def test_the_heartbeat_interval_bounds_the_notice(
    new_member: Callable[[str], RawMember],
    library_on: Callable[..., Any],
    kafka_broker: Any,
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    heartbeat_ms: int,
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    library = library_on(kafka_broker)
    library.create_topic(topic, 1)
    newcomer = new_member(group)
    member = library.member(group, topic, "range", heartbeat_ms=heartbeat_ms)
    without_s = time.monotonic()

    def poll() -> None:
        nonlocal without_s
        without_s = time.monotonic()
        member.poll()

    wait_until(member.assignment, "a member that reads", poll)
    began = time.monotonic()
    joining = background(newcomer.join, [("range", encode_subscription([topic]))])
    wait_until(joining.done, "the member has noticed the new one", lambda: member.consumer.poll(0.01))
    noticed_after_s = time.monotonic() - began
    assert joining.result().error_code == ErrorCode.NONE
    assert noticed_after_s < 6, "the session would last for longer"
    if heartbeat_ms == 2_000 and began - without_s < 1:  # a loaded machine may take longer between the assignment and the newcomer
        assert noticed_after_s > 0.4, "it has just joined, and sends its next heartbeat only after the interval"
    newcomer.leave()
    member.close()
