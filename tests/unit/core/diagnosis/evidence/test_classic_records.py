"""Tests of classic groups' records: what each shows beside the one before it."""

from dataclasses import replace
from typing import Any

from ottla.core.diagnosis.evidence.model import Kind
from ottla.testing.kit.offsets_topic_records import classic_group, member


def test_a_generation_shows_members_topics_and_how_long_its_sync_took(read: Any) -> None:
    (found,) = read((5_000, classic_group("g", 3, member("a", [0, 1]), member("b", [2], topics=("t", "u")), joined_ms=4_900)))
    assert (found.kind, found.group, found.generation, found.group_type) == (Kind.SYNC_COMPLETED, "g", 3, "classic")
    assert (found.at_ms, found.protocol, found.leader, found.clock) == (5_000, "range", "a", "__consumer_offsets-0")
    assert found.evidence == {"join_completed_ms": 4_900, "sync_ms": 100}
    assert found.topics == {"t", "u"}
    a, b = found.members
    assert (a.member_id, a.session_timeout_ms, a.rebalance_timeout_ms, a.assignment) == ("a", 45_000, 300_000, {"t": (0, 1)})
    assert (b.client_id, b.client_host) == ("client-b", "/127.0.0.1")


def test_an_empty_generation_is_the_end_of_the_members_and_generation_0_is_nothing(read: Any) -> None:
    found = read((1, classic_group("g", 0)), (2, classic_group("g", 1, member("a", [0]))), (3, classic_group("g", 2)))
    assert [(each.kind, each.generation) for each in found] == [(Kind.SYNC_COMPLETED, 1), (Kind.EMPTIED, 2)]
    assert found[1].members == ()


def test_a_static_member_with_another_id_in_the_same_generation_was_replaced(read: Any) -> None:
    before, after = member("a1", [0], instance_id="i"), member("a2", [0], instance_id="i")
    found = read((1, classic_group("g", 4, before)), (2, classic_group("g", 4, after)))
    assert [each.kind for each in found] == [Kind.SYNC_COMPLETED, Kind.STATIC_REPLACED]
    assert (found[1].generation, found[1].member_id, found[1].instance_id, found[1].reason) == (4, "a2", "i", "replaces a1")
    assert found[1].client_id == "client-a2"


def test_the_same_record_twice_is_one_generation(read: Any) -> None:
    record = classic_group("g", 4, member("a", [0]))
    assert [each.kind for each in read((1, record), (2, record))] == [Kind.SYNC_COMPLETED]


def test_generations_that_never_synced_are_counted(read: Any) -> None:
    found = read((1, classic_group("g", 4, member("a", [0]))), (2, classic_group("g", 7, member("a", [0]))))
    assert found[1].evidence["generations_skipped"] == 2


def test_members_with_another_subscription_are_counted(read: Any) -> None:
    found = read(
        (1, classic_group("g", 1, member("a"), member("b"))), (2, classic_group("g", 2, member("a"), member("b", topics=["t", "u"])))
    )
    assert found[1].evidence["members_resubscribed"] == 1
    assert "members_revoked" not in found[1].evidence


def test_cooperative_members_that_gave_up_partitions_before_they_rejoined_are_counted(read: Any) -> None:
    first = classic_group("g", 1, member("a", [0, 1, 2, 3]), protocol="cooperative-sticky")
    second = classic_group("g", 2, member("a", [0, 1], owned=[0, 1, 2, 3]), member("b"), protocol="cooperative-sticky")
    third = classic_group("g", 3, member("a", [0], owned=[0]), member("b", [2, 3]), protocol="cooperative-sticky")
    found = read((1, first), (2, second), (3, third))
    assert [each.evidence.get("members_revoked") for each in found] == [None, 0, 1]


def test_bytes_of_another_protocol_assign_nothing(read: Any) -> None:
    strange = replace(member("a"), subscription=b"\xff\xff", assignment=b"\x00")
    (found,) = read((1, classic_group("g", 1, strange)))
    assert found.members[0].assignment == {}
    assert found.topics == frozenset()
