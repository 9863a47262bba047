"""Tests of what two looks at a group differ in."""

from dataclasses import replace

from ottla.core.diagnosis.evidence.admin_snapshots import AdminSnapshots, GroupSnapshot
from ottla.core.diagnosis.evidence.model import CommitSpan, Evidence, Kind, Source
from ottla.core.model import EventMember, TopicPartition


def member(member_id: str, *partitions: int, instance_id: str | None = None) -> EventMember:
    return EventMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=-1,
        rebalance_timeout_ms=-1,
        assignment={"t": partitions},
    )


STABLE = GroupSnapshot(at_ms=1_000, group="g", group_type="classic", state="Stable", protocol="range", members=(member("a", 0, 1),))
MODERN = replace(STABLE, group_type="consumer", epoch=5, target_epoch=5)


def compare(*snapshots: GroupSnapshot) -> list[Evidence]:
    reader = AdminSnapshots()
    return [found for snapshot in snapshots for found in reader.read(snapshot)]


def test_the_first_look_is_where_comparing_begins() -> None:
    (found,) = compare(STABLE)
    assert (found.kind, found.source, found.members, found.generation) == (Kind.OBSERVED, Source.ADMIN, STABLE.members, None)
    assert compare(replace(STABLE, state="Dead", members=())) == []


def test_nothing_new() -> None:
    assert compare(STABLE, replace(STABLE, at_ms=2_000))[1:] == []


def test_members_that_joined_and_left() -> None:
    found = compare(STABLE, replace(STABLE, at_ms=6_000, members=(member("b", 0, 1),)))[1:]
    assert [(each.kind, each.member_id) for each in found] == [
        (Kind.MEMBER_LEFT, "a"),
        (Kind.MEMBER_JOINED, "b"),
        (Kind.SYNC_COMPLETED, None),
    ]
    assert {each.evidence["poll_gap_ms"] for each in found} == {5_000}
    assert "EXPIRE_HEARTBEAT" in found[0].candidates


def test_a_rebalance_that_was_seen_while_it_ran() -> None:
    preparing = replace(STABLE, at_ms=2_000, state="PreparingRebalance")
    found = compare(STABLE, preparing, replace(STABLE, at_ms=3_000))[1:]
    assert [each.kind for each in found] == [Kind.TRIGGER, Kind.SYNC_COMPLETED]
    assert found[0].reason == "the group is PreparingRebalance"


def test_a_static_member_that_came_back_between_two_looks() -> None:
    one, other = (replace(STABLE, at_ms=at_ms, members=(member(name, 0, instance_id="i"),)) for at_ms, name in ((1, "a1"), (2, "a2")))
    (found,) = compare(one, other)[1:]
    assert (found.kind, found.member_id, found.instance_id, found.reason) == (Kind.STATIC_REPLACED, "a2", "i", "replaces a1")


def test_a_group_that_lost_its_members_and_one_that_is_gone() -> None:
    found = compare(STABLE, replace(STABLE, at_ms=2, state="Empty", members=()), replace(STABLE, at_ms=3, state="Dead", members=()))
    assert [each.kind for each in found] == [Kind.OBSERVED]  # times that go back are not compared
    later = compare(STABLE, replace(STABLE, at_ms=2_000, state="Empty", members=()), replace(STABLE, at_ms=3_000, state="Dead", members=()))
    assert [each.kind for each in later] == [Kind.OBSERVED, Kind.MEMBER_LEFT, Kind.EMPTIED, Kind.DELETED]


def test_epochs_of_a_modern_group() -> None:
    bumped = replace(MODERN, at_ms=2_000, state="Assigning", epoch=6)
    found = compare(MODERN, bumped, replace(bumped, at_ms=3_000, state="Stable", target_epoch=6))[1:]
    assert [(each.kind, each.generation) for each in found] == [(Kind.TRIGGER, 5), (Kind.JOIN_COMPLETED, 6), (Kind.SYNC_COMPLETED, 6)]


def test_a_group_that_changed_its_protocol() -> None:
    (found,) = compare(STABLE, replace(MODERN, at_ms=2_000))[1:]
    assert (found.kind, found.group_type, found.generation) == (Kind.CONVERTED, "consumer", 5)


def test_offsets_that_moved() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    found = compare(replace(STABLE, committed={one: 5, two: 7}), replace(STABLE, at_ms=2_000, committed={one: 5, two: 9}))[1:]
    assert [each.commits for each in found] == [{two: CommitSpan(2_000, 2_000, 9, 9, 1)}]
