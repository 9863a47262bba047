"""A group of the application under test."""

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.groups.events import EventMember, GroupEvent, TriggerCode
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.testing import Broker
from ottla.testing.application.groups import NO_GROUP, Expectation, GroupNow, coordinator_of, group_now, rebalances_in_words
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_assignment

MakeMember = Callable[..., RawMember]


def read(broker: Broker) -> GroupNow:
    return broker._call_in_loop(lambda components: group_now(components, "g", frozenset()))


@pytest.fixture
def owning_member(ottla_broker: Broker) -> Iterator[RawMember]:
    ottla_broker.create_topic("flights", 2)
    with closing(RawMember(ottla_broker.bootstrap_servers, "g")) as owning_member:
        yield owning_member


def test_a_group_that_no_coordinator_has(ottla_broker: Broker) -> None:
    def find(components: Components) -> bool:
        return coordinator_of(components, "g") is None

    assert ottla_broker._call_in_loop(find)
    assert read(ottla_broker) == NO_GROUP


def test_the_lag_counts_subscribed_owned_and_committed_partitions(ottla_broker: Broker, owning_member: RawMember) -> None:
    ottla_broker.create_topic("trains", 2)
    ottla_broker.produce("flights", [b"1", b"2", b"3"], partition=0)
    ottla_broker.produce("flights", [b"4"], partition=1)
    ottla_broker.produce("trains", [b"5"] * 10, partition=1)
    owning_member.join()
    assert read(ottla_broker).lag == 4, "of the topic that it subscribes to"
    owning_member.sync({owning_member.member_id: encode_assignment({"flights": [0], "trains": [1]})})
    now = read(ottla_broker)
    assert (now.state, len(now.members), now.lag) == ("Stable", 1, 14)
    assert owning_member.commit("flights", 0, 2) == ErrorCode.NONE
    assert owning_member.commit("trains", 1, 8) == ErrorCode.NONE
    assert owning_member.commit("trains", 0, 0) == ErrorCode.NONE
    now = read(ottla_broker)
    assert now.lag == 1 + 1 + 2
    assert now.committed == {("flights", 0): 2, TopicPartition("trains", 0): 0, TopicPartition("trains", 1): 8}


def test_a_group_that_only_commits_has_a_lag(ottla_broker: Broker, owning_member: RawMember) -> None:
    ottla_broker.produce("flights", [b"1", b"2", b"3"], partition=0)
    assert read(ottla_broker).lag is None
    assert owning_member.commit("flights", 0, 2) == ErrorCode.NONE
    assert read(ottla_broker).lag == 1


def test_a_lag_is_not_known_before_the_logs_are_open_again(ottla_broker: Broker, owning_member: RawMember) -> None:
    ottla_broker.produce("flights", [b"1", b"2"], partition=0)
    owning_member.join()
    owning_member.sync()
    assert owning_member.commit("flights", 0, 1) == ErrorCode.NONE
    ottla_broker.restart()
    ottla_broker.group("g").wait(lag=1)
    assert read(ottla_broker).lag == 1
    ottla_broker.produce("flights", [b"3"], partition=1)
    with pytest.raises(AssertionError, match="a lag of at most 0"):
        ottla_broker.group("g").wait(lag=0, timeout=0)


def event(kind: str, generation: int = 1, **fields: Any) -> GroupEvent:
    states = {"state_from": "Stable", "state_to": "PreparingRebalance"}
    return GroupEvent(**({"at_ms": 0, "group": "g", "kind": kind, "generation": generation} | states | fields))


def named_member(member_id: str, client_id: str, instance_id: str | None = None) -> EventMember:
    timeouts = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1}
    return EventMember(member_id=member_id, instance_id=instance_id, client_id=client_id, client_host="/127.0.0.1", **timeouts)


def lines_of(*events: GroupEvent) -> list[str]:
    history = histories_of_events(events).get("g")
    return rebalances_in_words([] if history is None else list(history.generations())).splitlines()


def test_every_trigger_has_words() -> None:
    for code in TriggerCode:
        (_, line, *_) = lines_of(event("trigger", trigger=code.value, client_id="w1"))
        assert code.value not in line.partition(" (unplanned")[0]


def test_a_group_without_rebalances() -> None:
    assert lines_of() == lines_of(event("deleted")) == ["Its events show no rebalance."]


def test_a_rebalance_names_its_cause_and_who_is_in_the_generation() -> None:
    one, two = named_member("m1", "w1"), named_member("m2", "w2", "static-2")
    told = lines_of(
        event("trigger", trigger="JOIN_NEW", client_id="w1", member_id="m1"),
        event("trigger", trigger="JOIN_NEW", client_id="w2", instance_id="static-2", coalesced=True),
        event("join_completed", 2, members=(one, two)),
        event("sync_completed", 2, members=(one, two)),
        event("offsets_expired", 2),
        event("trigger", 2, trigger="EXPIRE_HEARTBEAT", client_id="w1", member_id="m1", evidence={"last_heartbeat_age_ms": 45_000}),
        event("join_completed", 3, members=(two,)),
    )
    assert told == [
        "Its 2 rebalances:",
        "  1. w1 joined the group; static-2 joined the group (planned): generation 2 with static-2, w1",
        "  2. w1 sent no heartbeat for 45.0 s (its session is 1 ms) and was removed (unplanned, EXPIRE_HEARTBEAT):"
        " not ended, static-2 joined",
        "The member did not come back: it crashed, was killed, or lost its network. No setting avoids that; find out what ended it.",
    ]


def test_what_was_not_planned_has_the_cause_and_the_advice_of_the_diagnosis() -> None:
    left = {"last_heartbeat_age_ms": 10, "session_timeout_ms": 1000, "rebalance_timeout_ms": 1000}
    one, again = named_member("m1", "w1"), named_member("m2", "w1")
    told = lines_of(
        event("trigger", trigger="JOIN_NEW", client_id="w1", member_id="m1"),
        event("join_completed", 1, members=(one,)),
        event("sync_completed", 1, members=(one,)),
        event("trigger", trigger="LEAVE", client_id="w1", member_id="m1", evidence=left, at_ms=1500),
        event("emptied", 2, at_ms=1500),
        event("trigger", 2, trigger="JOIN_NEW", client_id="w1", member_id="m2", at_ms=2600),
        event("join_completed", 3, members=(again,), at_ms=2600),
        event("sync_completed", 3, members=(again,), at_ms=2600),
    )
    assert told[2:4] == [
        "  2. Perhaps: w1 stopped for a restart: it was away for 1.1 s (unplanned, RESTART_DYNAMIC): no member is left",
        "  3. Perhaps: w1 came back from a restart of 1.1 s (unplanned, RESTART_DYNAMIC): generation 3 with w1",
    ]
    assert told[4].startswith("Set group.instance.id to one for each consumer")


def test_members_that_share_a_client_id_have_their_member_ids() -> None:
    members = (named_member("rdkafka-1", "rdkafka"), named_member("rdkafka-2", "rdkafka"))
    told = lines_of(
        event("trigger", trigger="LEAVE", client_id="rdkafka", member_id="rdkafka-3", client_reason="closing"),
        event("join_completed", 2, members=members),
        event("sync_completed", 2, members=members),
    )
    assert told[1] == '  1. rdkafka-3 left the group, saying "closing" (planned): generation 2 with rdkafka-1, rdkafka-2'


def test_how_a_rebalance_ended() -> None:
    told = lines_of(
        event("trigger", trigger="JOIN_NEW"),
        event("join_completed", 2),
        event("trigger", trigger="LEAVE", client_id="w1"),
        event("emptied", 3),
        event("trigger", trigger="JOIN_NEW", client_id="w1"),
        event("loaded", 3),
        event("join_completed", 4),
    )
    assert [line.partition("): ")[2] for line in told[1:5]] == [
        "the next rebalance began before the assignment was stored",
        "no member is left",
        "interrupted, the coordinator was loaded again or the group deleted",
        "not ended",
    ]
    assert told[1].startswith("  1. a member joined")
    perhaps = "Perhaps: The group moved to another coordinator, and members joined again"
    assert told[4] == f"  4. {perhaps} (unplanned, COORDINATOR_MOVE): not ended"


def group_event(kind: str, generation: int, trigger: str | None = None) -> GroupEvent:
    states = {"state_from": "Stable", "state_to": "PreparingRebalance"}
    return GroupEvent(at_ms=0, group="g", kind=kind, generation=generation, trigger=trigger, **states)


def rebalance(generation: int, trigger: str, *, ends: bool = True) -> Rebalance:
    events = [group_event("trigger", generation - 1, trigger), group_event("join_completed", generation)]
    (found,) = histories_of_events([*events, group_event("sync_completed", generation)] if ends else events)["g"].rebalances
    return found


def test_only_what_begins_later_counts() -> None:
    seen = [rebalance(1, "JOIN_NEW")]
    expected = Expectation("g", 2, 1, rebalances_now=lambda: seen, group_in_words=lambda: "It is Stable.")
    assert not expected.has_come()
    seen.append(rebalance(2, "JOIN_NEW"))
    seen.append(rebalance(3, "JOIN_NEW"))
    assert not expected.has_come(), "none of them was unplanned"
    assert expected.in_words() == "expected 2 rebalances and 1 unplanned of group g. 2 began, 0 of them unplanned. It is Stable."
    seen[-1] = rebalance(3, "EXPIRE_HEARTBEAT")
    assert expected.has_come()
    expected.check()
    seen.append(rebalance(4, "JOIN_NEW"))
    with pytest.raises(AssertionError, match="3 began, 1 of them unplanned"):
        expected.check()


def test_the_last_one_must_have_ended() -> None:
    seen: list[Rebalance] = []
    expected = Expectation("g", None, 0, rebalances_now=lambda: seen, group_in_words=str)
    assert expected.has_come()
    seen.append(rebalance(1, "JOIN_NEW", ends=False))
    assert not expected.has_come()
    expected.check()
    seen[0] = rebalance(1, "SYNC_TIMEOUT")
    with pytest.raises(AssertionError, match="expected 0 unplanned of group g"):
        expected.check()


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
        "It is Stable and has 1 member (w1) and a lag of 0. Its 1 rebalance:\n  1. w1 joined the group (planned): generation 1 with w1"
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
