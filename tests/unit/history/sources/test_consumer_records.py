"""Tests of the members and groups that a replay of KIP-848 records changes."""

from dataclasses import replace
from typing import Any

from ottla.history.sources.consumer_records import ConsumerGroup, ConsumerMember
from ottla.history.sources.evidence import Kind
from ottla.protocol.coordinator_records import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from tests.support.kit.offsets_topic_records import (
    Pair,
    commit,
    consumer_member,
    current_of,
    gone,
    group_epoch,
    partition_metadata,
    regular_expression,
    target_epoch,
    target_of,
)

METADATA = ConsumerGroupMemberMetadataValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=("t",),
    subscribed_topic_regex=None,
    rebalance_timeout_ms=300_000,
    server_assignor=None,
    classic_member_metadata=None,
)


def test_a_member_as_events_have_it() -> None:
    member = ConsumerMember(member_id="m", metadata=METADATA).event_member({"t": (0,)})
    assert (member.instance_id, member.client_id, member.client_host, member.assignment) == ("i", "c", "/h", {"t": (0,)})
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (-1, 300_000)


def test_a_classic_member_has_its_own_session_timeout() -> None:
    classic = replace(METADATA, classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=45_000))
    member = ConsumerMember(member_id="m", metadata=classic)
    assert member.is_classic
    assert member.event_member().session_timeout_ms == 45_000


def test_a_member_of_which_only_the_assignment_is_known() -> None:
    member = ConsumerMember(member_id="m")
    assert (member.instance_id, member.subscription, member.is_classic) == (None, (frozenset(), ""), False)
    assert member.event_member().client_id == ""


def test_the_topics_of_a_group_are_those_of_its_members_and_regular_expressions() -> None:
    group = ConsumerGroup(regular_expressions={"u.*": frozenset({"u1"})})
    group.member("m").metadata = METADATA
    assert group.member("m") is group.members["m"]
    assert group.topics() == {"t", "u1"}


def test_an_epoch_ends_what_led_to_it() -> None:
    group = ConsumerGroup(joined=[ConsumerMember(member_id="m")], resubscribed=1, assignors_changed=1, are_topics_changed=True)
    group.end_epoch()
    assert group == ConsumerGroup()


def started(*, instance_id: str | None = None) -> list[tuple[int, Pair]]:
    """A group of one member with two partitions at epoch 2, whose topic a commit names."""
    records = [
        commit("g", 0, 1),
        consumer_member("g", "a", instance_id=instance_id),
        group_epoch("g", 2),
        target_of("g", "a", 0, 1),
        target_epoch("g", 2, 990),
        current_of("g", "a", 2, 0, 1),
    ]
    return [(1_000, record) for record in records]


def test_the_first_member(read: Any) -> None:
    found = read(*started())
    assert [(each.kind, each.generation) for each in found] == [
        (Kind.COMMITS, None),
        (Kind.MEMBER_JOINED, 2),
        (Kind.JOIN_COMPLETED, 2),
        (Kind.SYNC_COMPLETED, 2),
        (Kind.MEMBER_RECONCILED, 2),
    ]
    assert {each.group_type for each in found[1:]} == {"consumer"}
    assert (found[1].member_id, found[1].client_id) == ("a", "client-a")
    assert found[2].evidence == {
        "members_joined": 1, "members_left": 0, "members_resubscribed": 0, "assignors_changed": 0, "metadata_changed": 0,
    }  # fmt: skip
    assert found[3].members[0].assignment == {"t": (0, 1)}
    assert found[3].evidence == {"target_computed_ms": 990}
    assert (found[3].members[0].session_timeout_ms, found[3].members[0].rebalance_timeout_ms) == (-1, 300_000)


def test_a_member_that_joins_later_waits_for_what_another_revokes(read: Any) -> None:
    more = [
        (2_000, consumer_member("g", "b")),
        (2_000, group_epoch("g", 3)),
        (2_100, target_of("g", "a", 0)),
        (2_100, target_of("g", "b", 1)),
        (2_100, target_epoch("g", 3)),
        (2_200, current_of("g", "a", 2, 0, state=1, revoking=[1])),
        (2_700, current_of("g", "a", 3, 0)),
        (2_800, current_of("g", "b", 3, 1)),
    ]
    found = read(*started(), *more)[5:]
    assert [(each.kind, each.member_id) for each in found if each.kind is not Kind.COMMITS] == [
        (Kind.MEMBER_JOINED, "b"),
        (Kind.JOIN_COMPLETED, None),
        (Kind.SYNC_COMPLETED, None),
        (Kind.MEMBER_RECONCILED, "a"),
        (Kind.MEMBER_RECONCILED, "b"),
    ]
    assert found[3].evidence == {"member_epoch": 3, "reconciliation_ms": 600, "revocation_ms": 500}
    assert found[4].evidence == {"member_epoch": 3, "reconciliation_ms": 700}


def test_a_member_that_left_or_was_fenced(read: Any) -> None:
    two = [(1_500, consumer_member("g", "b")), (1_500, group_epoch("g", 3))]
    end = [(9_000, record) for record in (*gone("g", "b"), group_epoch("g", 4))]
    found = read(*started(), *two, *end)[-2:]
    assert [(each.kind, each.generation) for each in found] == [(Kind.MEMBER_LEFT, 4), (Kind.JOIN_COMPLETED, 4)]
    assert (found[0].member_id, found[0].candidates) == ("b", ("LEAVE_CLOSE", "POLL_TIMEOUT", "EXPIRE_HEARTBEAT"))
    assert found[1].evidence["members_left"] == 1
    assert [each.member_id for each in found[1].members] == ["a"]


def test_a_member_that_did_not_revoke_in_time_may_have_been_fenced_for_that(read: Any) -> None:
    slow = [(2_000, current_of("g", "a", 2, 0, state=1, revoking=[1]))]
    end = [(9_000, record) for record in (*gone("g", "a"), group_epoch("g", 3))]
    found = read(*started(), *slow, *end)[-2:]
    assert "JOIN_TIMEOUT" in found[0].candidates
    assert (found[1].kind, found[1].members) == (Kind.EMPTIED, ())


def test_a_static_member_that_comes_back_is_no_new_epoch(read: Any) -> None:
    away = [(2_000, current_of("g", "a", -2, 0, 1))]
    back = [(3_000, record) for record in (*gone("g", "a"), consumer_member("g", "a2", instance_id="i"), target_of("g", "a2", 0, 1))]
    found = read(*started(instance_id="i"), *away, *back, (3_000, current_of("g", "a2", 2, 0, 1)))[5:]
    assert [(each.kind, each.member_id, each.instance_id) for each in found] == [
        (Kind.MEMBER_LEFT, "a", "i"),
        (Kind.STATIC_REPLACED, "a2", "i"),
    ]
    assert found[0].evidence == {"member_epoch": -2}
    assert found[1].reason == "replaces a"


def test_another_metadata_hash_alone_is_a_change_of_topics(read: Any) -> None:
    found = read(*started(), (4_000, group_epoch("g", 3, metadata_hash=8)))[-2:]
    assert [each.kind for each in found] == [Kind.TOPICS_CHANGED, Kind.JOIN_COMPLETED]
    assert found[0].topics == {"t"}
    assert found[1].evidence["metadata_changed"] == 1


def test_a_regular_expression_that_matches_more_is_a_change_of_topics(read: Any) -> None:
    first = (900, regular_expression("g", "t.*", "t"))
    more = [(4_000, regular_expression("g", "t.*", "t", "t2")), (4_000, group_epoch("g", 3))]
    found = read(first, *started(), *more)[-2:]
    assert [each.kind for each in found] == [Kind.TOPICS_CHANGED, Kind.JOIN_COMPLETED]
    assert found[0].topics == {"t", "t2"}


def test_topics_of_brokers_before_4_1(read: Any) -> None:
    """They have names, and their change is a change of topics, without a metadata hash."""
    first = [consumer_member("g", "a"), group_epoch("g", 1, 0), partition_metadata("g", 2), target_of("g", "a", 0, 1), target_epoch("g", 1)]
    grown = [partition_metadata("g", 4), group_epoch("g", 2, 0)]
    found = read(*((1_000, record) for record in first), *((2_000, record) for record in grown))
    assert [each.kind for each in found] == [
        Kind.MEMBER_JOINED,
        Kind.JOIN_COMPLETED,
        Kind.SYNC_COMPLETED,
        Kind.TOPICS_CHANGED,
        Kind.JOIN_COMPLETED,
    ]
    assert found[2].members[0].assignment == {"t": (0, 1)}


def test_another_subscription_is_no_change_of_topics(read: Any) -> None:
    more = [(4_000, consumer_member("g", "a", topics=["t", "u"])), (4_000, group_epoch("g", 3, metadata_hash=8))]
    (found,) = [each for each in read(*started(), *more) if each.generation == 3]
    assert found.kind is Kind.JOIN_COMPLETED
    assert found.evidence["members_resubscribed"] == 1


def test_another_assignor_is_counted(read: Any) -> None:
    found = read(
        *started(), (4_000, consumer_member("g", "a", assignor="range")), (4_000, group_epoch("g", 3)), (4_100, target_epoch("g", 3))
    )
    assert found[-2].evidence["assignors_changed"] == 1
    assert found[-1].protocol == "range"


def test_a_group_that_was_there_before_the_records_did_not_join_all_at_once(read: Any) -> None:
    records = [consumer_member("g", "a"), consumer_member("g", "b"), group_epoch("g", 17), target_epoch("g", 17)]
    found = read(*((1_000, record) for record in records))
    assert [each.kind for each in found] == [Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED]
    assert found[0].evidence == {}
    assert len(found[0].members) == 2
