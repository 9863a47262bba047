"""Groups of the application under test, with members that do only what the test says."""

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_assignment

MakeMember = Callable[..., RawMember]


@pytest.fixture
def member(ottla_broker: Broker) -> Iterator[MakeMember]:
    with ExitStack() as members:
        yield lambda name, instance_id=None: members.enter_context(
            closing(RawMember(ottla_broker.bootstrap_servers, "billing", client_id=name, instance_id=instance_id))
        )


def alone(member: RawMember) -> RawMember:
    """The member is the only one of its group, which is Stable then."""
    member.join()
    member.sync({member.member_id: encode_assignment({"orders": [0]})})
    return member


def test_wait_holds_when_all_conditions_do(ottla_broker: Broker, member: MakeMember) -> None:
    ottla_broker.create_topic("orders")
    group = ottla_broker.group("billing")
    group.wait(state="Dead", members=0)
    alone(member("w1"))
    group.wait(state="Stable", members=1, lag=0)
    assert group.committed() == {}


def test_a_wait_that_fails_says_how_the_group_came_to_be_as_it_is(ottla_broker: Broker, member: MakeMember) -> None:
    group = ottla_broker.group("billing")
    with pytest.raises(AssertionError, match=r"group billing to have 1 member\. It does not exist\. Its events show no rebalance\."):
        group.wait(members=1, timeout=0)
    alone(member("w1"))
    with pytest.raises(AssertionError) as failure:
        group.wait(state="Stable", members=2, lag=0, timeout=0)
    assert str(failure.value) == (
        "waited 0 s for: group billing to have state Stable and 2 members and a lag of at most 0. "
        "It is Stable and has 1 member (w1) and a lag of 0. Its 1 rebalance:\n  1. w1 joined (planned): generation 1 with w1"
    )


def test_what_a_member_owned_and_never_committed_counts_when_it_is_gone(ottla_broker: Broker, member: MakeMember) -> None:
    ottla_broker.create_topic("orders")
    ottla_broker.produce("orders", [b"%d" % number for number in range(100)])
    group, one = ottla_broker.group("billing"), alone(member("w1"))
    assert one.leave() == ErrorCode.NONE
    with pytest.raises(AssertionError, match=r"It is Empty and has 0 members and a lag of 100, and no member to read it\. "):
        group.wait(lag=0, timeout=0)
    assert one.commit("orders", 0, 100) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_evicted_member_learns_it_and_the_events_say_what_it_was(ottla_broker: Broker, member: MakeMember) -> None:
    group, one = ottla_broker.group("billing"), alone(member("w1"))
    group.evict("w1")
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert [event.trigger for event in group.events() if event.trigger] == ["JOIN_NEW", "ADMIN_REMOVE"]
    group.wait(state="Empty", members=0)


def test_an_eviction_may_have_the_reason_of_a_client(ottla_broker: Broker, member: MakeMember) -> None:
    group, one = ottla_broker.group("billing"), alone(member("w1"))
    with group.expect(rebalances=1, unplanned=1):
        group.evict(one.member_id, reason="consumer poll timeout has expired.")
    assert group.events()[-2].trigger == "POLL_TIMEOUT"


def test_an_expired_session_is_shown_as_one_with_the_true_silence(ottla_broker: Broker, member: MakeMember) -> None:
    group, one = ottla_broker.group("billing"), alone(member("w1", "static-1"))
    with group.expect(rebalances=1, unplanned=1):
        group.expire("static-1")
    expired = group.events()[-2]
    assert (expired.trigger, expired.instance_id) == ("EXPIRE_HEARTBEAT", "static-1")
    assert expired.evidence["last_heartbeat_age_ms"] < expired.evidence["session_timeout_ms"]
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_ends_when_the_member_no_longer_waits_for_its_assignment(ottla_broker: Broker, member: MakeMember) -> None:
    group, leader, follower = ottla_broker.group("billing"), alone(member("w1")), member("w2")
    with ThreadPoolExecutor(2) as executor:
        joining = executor.submit(follower.join)
        group.wait(state="PreparingRebalance", members=2)
        leader.join()
        joining.result()
        syncing = executor.submit(follower.sync)

        def is_parked() -> bool:
            return "SyncGroup" in [each.parked_in for each in group._now().members]

        wait_until(is_parked, "the follower to wait in SyncGroup")
        with pytest.raises(AssertionError, match=r"the SyncGroup of w2 to be answered: no session ends meanwhile\. It is CompletingRebal"):
            group.expire("w2", timeout=0)
        expiring = executor.submit(group.expire, "w2")
        leader.sync()
        expiring.result()
        syncing.result()
    group.wait(state="PreparingRebalance", members=1)
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_coroutines_wait_while_their_loop_runs(ottla_broker: Broker, member: MakeMember) -> None:
    group, one, two = ottla_broker.group("billing"), member("w1"), member("w2")

    async def story() -> None:
        waiting = asyncio.create_task(group.wait_async(state="Stable", members=1))
        await asyncio.sleep(0)
        alone(one)
        await waiting
        async with group.expect_async(rebalances=1, unplanned=1):
            await group.expire_async("w1")
        with pytest.raises(AssertionError, match=r"expected 0 rebalances of group billing\. 1 began"):
            async with group.expect_async(rebalances=0):
                alone(two)
        with pytest.raises(AssertionError, match=r"waited 0 s for: group billing to have 2 members\. It is Stable"):
            await group.wait_async(members=2, timeout=0)

    asyncio.run(story())
    assert two.heartbeat() == ErrorCode.NONE


def test_names_are_those_of_one_member(ottla_broker: Broker, member: MakeMember) -> None:
    group = ottla_broker.group("billing")
    with pytest.raises(AssertionError, match="group billing has no member w1: its members are none"):
        group.evict("w1")
    one = alone(member("w1"))
    with pytest.raises(AssertionError, match=rf"no member w2: its members are w1 \({re.escape(one.member_id)}\)"):
        group.expire("w2")


def test_expect_counts_only_what_begins_inside(ottla_broker: Broker, member: MakeMember) -> None:
    group = ottla_broker.group("billing")
    with group.expect(rebalances=1, unplanned=0):
        one = alone(member("w1"))
    with group.expect(rebalances=0):
        assert one.heartbeat() == ErrorCode.NONE
    with (
        pytest.raises(AssertionError, match=r"expected 0 rebalances of group billing\. 1 began, 0 of them unplanned"),
        group.expect(rebalances=0),
    ):
        one.leave()


def test_expect_waits_for_what_is_expected_and_says_what_came_instead(ottla_broker: Broker, member: MakeMember) -> None:
    group = ottla_broker.group("billing")
    with (
        pytest.raises(AssertionError, match=r"expected 2 rebalances and 1 unplanned of group billing\. 1 began(.|\n)*1\. w1 joined"),
        group.expect(rebalances=2, unplanned=1, timeout=0),
    ):
        alone(member("w1"))


def test_what_fails_inside_expect_is_what_the_test_reports(ottla_broker: Broker) -> None:
    with pytest.raises(ZeroDivisionError), ottla_broker.group("billing").expect(rebalances=5):
        _ = 1 / 0


def test_a_wait_or_an_expectation_that_can_not_hold_or_fail_is_refused(ottla_broker: Broker) -> None:
    group = ottla_broker.group("billing")
    with pytest.raises(ValueError, match=r"groups have no state 'stable'; did you mean 'Stable'\?"):
        group.wait(state="stable")
    with pytest.raises(
        ValueError, match="groups have no state 'running': they have Empty, PreparingRebalance, CompletingRebalance, Stable, Dead"
    ):
        group.wait(state="running")
    with pytest.raises(ValueError, match="wait needs a condition"):
        group.wait()
    with pytest.raises(ValueError, match="expect needs a number"), group.expect():
        pass


def test_the_assignment_names_members_and_their_partitions(ottla_broker: Broker, member: MakeMember) -> None:
    ottla_broker.create_topic("orders", 3)
    group = ottla_broker.group("billing")
    assert group.assignment() == {}
    alone(member("w1"))
    assert group.assignment() == {"w1": [("orders", 0)]}
    with ThreadPoolExecutor(1) as executor:
        joining = executor.submit(member("w1").join)
        group.wait(members=2)
        shared = group.assignment()
        group.evict(next(name for name, partitions in shared.items() if partitions))
        joining.result()
    assert sorted(shared.values()) == [[], [("orders", 0)]]
    assert all(name.startswith("w1-") for name in shared), "two members share the client id"
