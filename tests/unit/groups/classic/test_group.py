"""A classic group: counts, protocols, leader, topics, its record; its members, who they are, and who may commit."""

from typing import Any

import pytest

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import Member, Protocols, member_from_value
from ottla.groups.classic.states import GroupState
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue
from ottla.protocol.errors import ErrorCode
from tests.support.kit.consumer_protocol import encode_subscription

RANGE = ("range", encode_subscription(["flights"]))
ROUNDROBIN = ("roundrobin", encode_subscription(["flights"]))
STICKY = ("sticky", encode_subscription(["flights"]))


def member(member_id: str, *protocols: tuple[str, bytes], instance_id: str | None = None, rebalance_ms: int = 60_000) -> Member:
    return Member(
        "g",
        member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_ms,
        protocols=protocols or (RANGE,),
        now_ms=0,
    )


def group_of(*members: Member) -> ClassicGroup:
    group = ClassicGroup("g", now_ms=0)
    for each in members:
        group.add(each, "consumer")
    group.transition(GroupState.PREPARING_REBALANCE, 0)
    return group


def test_the_first_member_leads_and_fixes_the_protocol_type() -> None:
    group = group_of(member("m1"), member("m2"))
    assert (group.leader, group.protocol_type) == ("m1", "consumer")


def test_when_the_leader_leaves_the_next_member_leads() -> None:
    group = group_of(member("m1"), member("m2"), member("m3"))
    group.remove("m1")
    assert group.leader == "m2"
    group.remove("m3")
    group.remove("m2")
    assert group.leader is None


@pytest.mark.conformance("GroupMetadataTest.testSupportsProtocols")
@pytest.mark.parametrize(
    ("protocol_type", "protocols", "supported"),
    [
        ("consumer", (RANGE,), True),
        ("consumer", (STICKY, RANGE), True),
        ("consumer", (ROUNDROBIN,), False),
        ("connect", (RANGE,), False),
        ("consumer", (), False),
    ],
)
def test_a_client_needs_one_protocol_that_all_members_support(protocol_type: str, protocols: Protocols, supported: bool) -> None:
    group = group_of(member("m1", RANGE, ROUNDROBIN), member("m2", RANGE))
    assert group.supports(protocol_type, protocols) == supported


@pytest.mark.conformance("GroupMetadataTest.testSupportsProtocols")
def test_an_empty_group_accepts_any_type_and_protocol() -> None:
    group = ClassicGroup("g", now_ms=0)
    assert group.supports("connect", (STICKY,))
    assert not group.supports("", (STICKY,))
    assert not group.supports("consumer", ())


@pytest.mark.conformance("GroupMetadataTest.testSelectProtocol", "GroupMetadataTest.testSelectProtocolChoosesCompatibleProtocol")
def test_the_vote() -> None:
    assert group_of(member("m1", RANGE, ROUNDROBIN), member("m2", ROUNDROBIN, RANGE)).select_protocol() == "range"
    assert group_of(member("m2", ROUNDROBIN, RANGE), member("m1", RANGE, ROUNDROBIN)).select_protocol() == "range"
    three = group_of(member("m1", RANGE, ROUNDROBIN), member("m2", ROUNDROBIN, RANGE), member("m3", STICKY, ROUNDROBIN, RANGE))
    assert three.select_protocol() == "roundrobin"


def test_a_protocol_counts_once_for_a_member_that_lists_it_twice() -> None:
    group = group_of(member("m1", RANGE, RANGE), member("m2", ROUNDROBIN, RANGE))
    assert not group.supports("consumer", (ROUNDROBIN,))
    group.remove("m1")
    assert group.supports("consumer", (ROUNDROBIN,))


@pytest.mark.conformance("GroupMetadataTest.testUpdateMember")
def test_updates_change_what_is_supported() -> None:
    first = member("m1", RANGE)
    group = group_of(first)
    group.update(first, (STICKY,), 7_000, 9_000)
    assert group.supports("consumer", (STICKY,))
    assert not group.supports("consumer", (RANGE,))
    assert (first.session_timeout_ms, first.rebalance_timeout_ms) == (7_000, 9_000)


@pytest.mark.conformance("GroupMetadataTest.testInvokeJoinCallback", "GroupMetadataTest.testNotInvokeJoinCallback")
def test_parking_is_counted_once() -> None:
    first, second = member("m1"), member("m2")
    group = group_of(first, second)
    assert group.park_join(first, 1) is None
    assert group.park_join(first, 2) == 1
    assert not group.all_joined
    group.park_join(second, 3)
    assert group.all_joined
    group.pending["m3"] = first.session
    assert not group.all_joined
    assert group.unpark_join(first) == 2
    assert group.unpark_join(first) is None
    assert group.awaiting_join_count == 1


def test_the_longest_rebalance_timeout_counts() -> None:
    assert group_of(member("m1", rebalance_ms=5), member("m2", rebalance_ms=9)).rebalance_timeout_ms == 9
    assert ClassicGroup("g", now_ms=0).rebalance_timeout_ms == 0


@pytest.mark.conformance("GroupMetadataTest.testReplaceGroupInstance")
def test_a_replacement_keeps_assignment_leadership_and_pending_sync() -> None:
    old = member("s1", instance_id="i1")
    old.assignment = b"assignment"
    group = group_of(old, member("m2"))
    group.pending_sync["s1"] = None
    group.replace("s1", member("s2", instance_id="i1"))
    assert group.leader == "s2"
    assert group.static_members == {"i1": "s2"}
    assert group.members["s2"].assignment == b"assignment"
    assert list(group.pending_sync) == ["s1"], "as in Kafka, the old id stays missing"
    assert list(group.members) == ["m2", "s2"]


def test_a_parked_member_cannot_be_removed() -> None:
    first = member("m1")
    group = group_of(first)
    group.park_join(first, 1)
    with pytest.raises(AssertionError):
        group.remove("m1")


@pytest.mark.conformance("GroupMetadataTest.testSubscribedTopics")
def test_subscribed_topics() -> None:
    both = encode_subscription(["flights", "weather"])
    group = group_of(member("m1"), member("m2", ("range", both)))
    assert group.is_subscribed_to("anything"), "before the first generation the topics are unknown"
    group.protocol = "range"
    group.update_subscribed_topics()
    assert group.subscribed_topics == {"flights", "weather"}
    assert not group.is_subscribed_to("anything")


@pytest.mark.conformance("GroupMetadataTest.testSubscribedTopics")
def test_topics_are_unknown_if_one_subscription_cannot_be_read() -> None:
    group = group_of(member("m1"), member("m2", ("range", b"\x00")))
    group.protocol = "range"
    group.update_subscribed_topics()
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("flights")


@pytest.mark.conformance("GroupMetadataTest.testSubscribedTopicsNonConsumerGroup")
def test_the_topics_of_other_protocols_are_unknown() -> None:
    group = ClassicGroup("g", now_ms=0)
    group.add(member("m1"), "connect")
    group.protocol = "range"
    group.update_subscribed_topics()
    assert group.subscribed_topics is None
    assert not group.is_subscribed_to("flights")


def test_a_simple_group_has_no_subscription() -> None:
    assert not ClassicGroup("g", now_ms=0).is_subscribed_to("flights")


def test_a_new_member_does_not_count_as_alive_while_it_waits() -> None:
    first = member("m1")
    group = group_of(first)
    group.park_join(first, 1)
    assert first.counts_as_alive
    first.is_new = True
    assert not first.counts_as_alive


def registered(leader: str | None) -> GroupMetadataValue:
    one = MemberValue(
        member_id="m1",
        instance_id="i1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=RANGE[1],
        assignment=b"assignment",
    )
    return GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader=leader, current_state_timestamp_ms=5, members=(one,)
    )


@pytest.mark.conformance("GroupMetadataManagerTest.testReplayGroupMetadataRecords")
def test_a_group_is_restored_from_its_record() -> None:
    group = ClassicGroup.from_record("g", registered("m1"), timer_ms=100)
    assert (group.state, group.generation, group.leader, group.state_since_ms) == (GroupState.STABLE, 7, "m1", 5)
    assert group.members["m1"].protocols == (RANGE,)
    assert group.subscribed_topics == {"flights"}
    assert group.static_members == {"i1": "m1"}


def test_a_leader_that_is_not_a_member_is_replaced_when_the_group_is_restored() -> None:
    assert ClassicGroup.from_record("g", registered("gone"), timer_ms=100).leader == "m1"
    assert ClassicGroup.from_record("g", registered(None), timer_ms=100).leader == "m1"


# A member of a classic group: metadata, votes, sessions that count, and the member that a record contains.


def member_member(*protocols: tuple[str, bytes]) -> Member:
    return Member(
        "g",
        "m1",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=protocols,
        now_ms=0,
    )


def test_metadata_is_that_of_the_protocol() -> None:
    one = member_member(("range", b"r"), ("sticky", b"s"))
    assert (one.metadata("sticky"), one.metadata("other"), one.metadata(None)) == (b"s", b"", b"")


def test_a_member_votes_for_its_first_candidate() -> None:
    one = member_member(("range", b""), ("sticky", b""), ("other", b""))
    assert one.vote({"other", "sticky"}) == "sticky"
    with pytest.raises(AssertionError):
        one.vote({"unknown"})


def test_a_new_member_does_not_count_as_alive_while_it_is_parked() -> None:
    one = member_member()
    assert not one.counts_as_alive
    one.awaiting_join = 1
    assert one.counts_as_alive
    one.is_new = True
    assert not one.counts_as_alive


def test_a_member_that_waits_for_its_assignment_counts_as_alive() -> None:
    one = member_member()
    one.awaiting_sync = 1
    assert one.counts_as_alive


def test_a_record_contains_the_metadata_of_one_protocol() -> None:
    value = MemberValue(
        member_id="m1",
        instance_id="i1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=b"topics",
        assignment=b"parts",
    )
    loaded = member_from_value("g", "range", value, timer_ms=5)
    assert (loaded.member_id, loaded.instance_id, loaded.protocols) == ("m1", "i1", (("range", b"topics"),))
    assert (loaded.assignment, loaded.is_loaded, loaded.last_seen_ms) == (b"parts", True, 5)


# Identity: members, and the holder of an instance id.

E = ErrorCode


@pytest.fixture
def with_statics(driver: Any) -> Any:
    return driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1", "join g - new=m9")


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("s1 gen=1 instance=i1", E.NONE),
        ("s1 gen=1", E.NONE),
        ("s1 gen=1 instance=i9", E.UNKNOWN_MEMBER_ID),
        ("s0 gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=1", E.UNKNOWN_MEMBER_ID),
        ("m9 gen=1", E.UNKNOWN_MEMBER_ID),
        ("s0 gen=9 instance=i1", E.FENCED_INSTANCE_ID),
        ("s1 gen=0", E.ILLEGAL_GENERATION),
    ],
)
def test_who_may_send_heartbeats(with_statics: Any, who: str, error: ErrorCode) -> None:
    assert with_statics.error(f"heartbeat g {who}") is error


def test_each_fenced_process_is_reported_once(with_statics: Any) -> None:
    kinds = []
    for member_id in ("a", "a", "b", "b"):
        kinds += [event.kind for event in with_statics.do(f"heartbeat g {member_id} gen=1 instance=i1").events]
    assert kinds == ["static_fenced", "static_fenced"]


# Who may commit offsets to a classic group, and whose session a commit restarts.


@pytest.fixture
def with_static(driver: Any) -> Any:
    """Group g is Stable at generation 1; its only member s1 holds instance i1."""
    return driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")


@pytest.mark.parametrize(
    ("commit", "error"),
    [
        ("s1 gen=1 instance=i1", E.NONE),
        ("instance=i1", E.FENCED_INSTANCE_ID),
        ("instance=i9", E.UNKNOWN_MEMBER_ID),
        ("gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=9 instance=i1", E.FENCED_INSTANCE_ID),
        ("s1 gen=9 instance=i1", E.ILLEGAL_GENERATION),
        ("", E.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_instance_id_is_checked_before_the_generation_also_without_a_member_id(with_static: Any, commit: str, error: ErrorCode) -> None:
    assert with_static.error(f"commit g {commit} flights/0=1") is error


def test_a_commit_with_an_instance_id_alone_is_accepted_by_an_empty_group(with_static: Any) -> None:
    with_static.given("leave g s1")
    assert with_static.error("commit g instance=i1 flights/0=1") is E.NONE


@pytest.mark.parametrize(("state", "deadline_ms"), [("Stable", 14_000), ("PreparingRebalance", 14_000), ("CompletingRebalance", 10_000)])
def test_an_accepted_commit_restarts_the_session(driver: Any, state: str, deadline_ms: int) -> None:
    member = driver.in_state(state).group().members["m1"]
    driver.now_ms = 4_000
    driver.do(f"commit g m1 gen={driver.group().generation} flights/0=1")
    assert member.session.at_ms == deadline_ms


def test_a_refused_commit_does_not(driver: Any) -> None:
    member = driver.in_state("Stable").group().members["m1"]
    driver.now_ms = 4_000
    assert driver.error("commit g m1 gen=1 flights/0=1") is E.ILLEGAL_GENERATION
    assert member.session.at_ms == 10_000


def test_a_dead_group_refuses_every_commit(driver: Any) -> None:
    driver.in_state("Stable").group().transition(GroupState.DEAD, 0)
    assert driver.error("commit g m1 gen=2 flights/0=1") is E.COORDINATOR_NOT_AVAILABLE
    assert driver.error("commit g flights/0=1") is E.COORDINATOR_NOT_AVAILABLE


# DescribeGroups: unknown groups, and what a stable group shows.


def test_an_unknown_group_is_dead_and_newer_clients_get_an_error(driver: Any) -> None:
    new = driver.answer("describe g")
    assert (new.error, new.state, new.error_message) == (E.GROUP_ID_NOT_FOUND, "Dead", "Group g not found.")
    old = driver.answer("describe g old=yes")
    assert (old.error, old.state, old.error_message) == (E.NONE, "Dead", None)


def test_a_stable_group_is_described_in_full(driver: Any) -> None:
    described = driver.in_state("Stable").answer("describe g")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first = described.members[0]
    assert (first.member_id, first.client_id, first.client_host) == ("m1", "client", "/127.0.0.1")
    assert first.metadata
    assert first.assignment
