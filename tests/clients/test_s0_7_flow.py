"""S0.5 and S0.7 on the wire, on both brokers: how members hear of a rebalance, and how it goes on from there."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.testing.raw_member import RawMember
from ottla.testing.sim_protocol import encode_subscription

NONE, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 0, 22, 27


def test_s0_7_from_notice_to_work(
    new_member: Callable[[str], RawMember],
    group_commit: Callable[..., int],
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    wait_until: Callable[..., None],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    assert group_commit(unique_name("somebody-else"), topic, 0, 0) == NONE, "the topic is there"
    first, second = new_member(group), new_member(group)
    assert first.join().error_code == NONE
    assert first.sync({first.member_id: b"all"}) == (NONE, b"all")

    joining = background(second.join, [("range", encode_subscription(["arrivals"]))])
    wait_until(lambda: described(group).group_state == "PreparingRebalance", "the second member asks to join")
    assert first.heartbeat() == REBALANCE_IN_PROGRESS, "the notice"
    assert first.commit(topic, 0, 41) == NONE, "on notice it commits what it has done"
    assert not joining.done(), "the coordinator waits for the first"

    led = first.join([("range", encode_subscription(["departures"]))])
    answer = joining.result(10)
    assert (first.generation, second.generation) == (2, 2)
    assert led.leader == answer.leader == first.member_id, "who joined the group first leads"
    assert {each.member_id: bytes(each.metadata) for each in led.members} == {
        first.member_id: encode_subscription(["departures"]),
        second.member_id: encode_subscription(["arrivals"]),
    }, "the leader gets all subscriptions"
    assert not answer.members, "nobody else does"

    syncing = background(second.sync)
    wait_until(lambda: described(group).group_state == "CompletingRebalance", "no plan yet")
    assert first.sync({first.member_id: b"departures", second.member_id: b"arrivals"}) == (NONE, b"departures")
    assert syncing.result(10) == (NONE, b"arrivals"), "everybody gets its own part"
    assert (first.heartbeat(), second.heartbeat()) == (NONE, NONE), "work resumes"
    assert first.commit(topic, 0, 42) == NONE
    first.generation = 1
    assert first.commit(topic, 0, 43) == ILLEGAL_GENERATION


def test_s0_7_the_coordinator_waits_up_to_the_rebalance_timeout(
    new_member: Callable[[str], RawMember], background: Callable[..., Future[Any]], unique_name: Callable[[str], str]
) -> None:
    group = unique_name("group")
    silent, second = new_member(group), new_member(group)
    assert silent.join(rebalance_timeout_ms=700).error_code == NONE
    assert silent.sync({silent.member_id: b"all"}) == (NONE, b"all")
    began = time.monotonic()
    answer = second.join(rebalance_timeout_ms=700)
    waited_s = time.monotonic() - began
    assert (answer.error_code, answer.leader, second.generation) == (NONE, second.member_id, 2)
    assert 0.6 < waited_s < 3, "and then goes on without the silent one"
    assert silent.heartbeat() == 25, "which is no member any more"


@pytest.mark.parametrize("heartbeat_ms", [200, 1_200])
def test_s0_5_the_heartbeat_interval_bounds_the_notice(
    new_member: Callable[[str], RawMember],
    library_on: Callable[..., Any],
    kafka_broker: Any,
    described: Callable[[str], Any],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    wait_until: Callable[..., None],
    heartbeat_ms: int,
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    library = library_on(kafka_broker)
    library.create_topic(topic, 1)
    member = library.member(group, topic, "range", heartbeat_ms=heartbeat_ms)
    wait_until(member.assignment, "a member that reads", member.poll)
    newcomer = new_member(group)
    began = time.monotonic()
    joining = background(newcomer.join, [("range", encode_subscription([topic]))])
    wait_until(joining.done, "the member has heard of the newcomer", lambda: member.consumer.poll(0.01))
    heard_after_s = time.monotonic() - began
    assert joining.result().error_code == NONE
    assert heard_after_s < heartbeat_ms / 1000 + 2
    if heartbeat_ms == 1_200:
        assert heard_after_s > 0.4, "it joined anew a moment ago and beats again only when the interval is over"
    newcomer.leave()
    member.close()
