"""Tests of the figures about what was read."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.records import EvidenceDecoder
from ottla.history.sources.evidence import CommitSpan, Kind
from ottla.history.sources.group_records import RECORD_TYPE_NAMES, CommitSpans, GroupRecords, ReadCounts
from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES
from ottla.protocol.model import Record, TopicPartition
from tests.support.kit.offsets_topic_records import (
    classic_group,
    commit,
    consumer_member,
    current_of,
    gone,
    group_epoch,
    member,
    record_key,
    records_at,
    regular_expression,
    target_epoch,
    target_of,
)


def test_every_type_that_has_a_schema_has_a_name() -> None:
    for number, record_type in OFFSETS_TOPIC_TYPES.items():
        name = RECORD_TYPE_NAMES[number]
        assert record_type.name.removeprefix("Legacy").startswith(name)


def test_types_without_a_name_are_unknown() -> None:
    counts = ReadCounts()
    for number in (1, 0, 18, 200):
        counts.count_type(number)
    assert counts.to_dict()["record_types"] == {"OffsetCommit": 2, "unknown": 2}


def test_a_span_has_the_first_the_last_and_how_many() -> None:
    spans = CommitSpans()
    for at_ms, offset in ((5, 10), (7, 30), (9, 20)):
        spans.add("g", "t", 1, at_ms, offset)
    spans.add("h", "t", 1, 1, 1)
    assert spans.groups() == ["g", "h"]
    assert spans.take("g") == {TopicPartition("t", 1): CommitSpan(5, 9, 10, 20, 3)}
    assert spans.take("g") == {}
    assert spans.groups() == ["h"]


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


PAIRS = [
    classic_group("g", 1, member("a", [0])),
    commit("g", 0, 5),
    consumer_member("g", "a"),
    group_epoch("g", 2),
    target_of("g", "a", 0, 1),
    target_epoch("g", 2, 990),
    current_of("g", "a", 2, 0, 1),
    regular_expression("g", "t.*", "t"),
]


def test_commits_come_before_the_record_that_follows_and_at_the_end(read: Any) -> None:
    found = read(
        (10, commit("g", 0, 1)),
        (20, commit("g", 1, 5)),
        (30, commit("h", 0, 9)),
        (40, commit("g", 0, 4)),
        (50, classic_group("g", 1, member("a", [0, 1]))),
        (60, commit("g", 1, 6)),
    )
    assert [(each.kind, each.group, each.at_ms) for each in found] == [
        (Kind.COMMITS, "g", 40),
        (Kind.SYNC_COMPLETED, "g", 50),
        (Kind.COMMITS, "h", 30),
        (Kind.COMMITS, "g", 60),
    ]
    assert found[0].commits == {TopicPartition("t", 0): CommitSpan(10, 40, 1, 4, 2), TopicPartition("t", 1): CommitSpan(20, 20, 5, 5, 1)}


def test_a_deleted_offset_is_no_commit(read: Any) -> None:
    assert read((10, commit("g", 0, None))) == []


def test_groups_can_be_chosen(read: Any) -> None:
    records = [(1, classic_group(name, 1, member("a", [0]))) for name in ("g", "h")]
    assert {each.group for each in read(*records, (2, commit("g", 0, 1)), (2, commit("h", 0, 1)), groups=["h"])} == {"h"}


def test_a_group_that_is_deleted(read: Any) -> None:
    found = read((1, classic_group("g", 1, member("a", [0]))), (2, classic_group("g", 2)), (3, (record_key(2, "g"), None)))
    assert [(each.kind, each.at_ms) for each in found] == [(Kind.SYNC_COMPLETED, 1), (Kind.EMPTIED, 2), (Kind.DELETED, 3)]


def test_the_tombstone_of_an_unknown_group_says_nothing(read: Any) -> None:
    assert read((3, (record_key(2, "g"), None)), (3, (record_key(3, "g"), None)), (3, (record_key(8, "g", "a"), None))) == []


def test_a_classic_group_that_becomes_one_of_kip_848_and_back(read: Any) -> None:
    upgrade = [
        (record_key(2, "g"), None),
        group_epoch("g", 6),
        consumer_member("g", "a"),
        target_of("g", "a", 0),
        target_epoch("g", 6),
        current_of("g", "a", 6, 0),
        consumer_member("g", "b"),
        group_epoch("g", 7),
    ]
    downgrade = [
        *gone("g", "b"),
        *gone("g", "a"),
        (record_key(6, "g"), None),
        (record_key(3, "g"), None),
        classic_group("g", 7, member("a", [0])),
    ]
    found = read(
        (1_000, classic_group("g", 5, member("a", [0]))),
        *((2_000, record) for record in upgrade),
        *((9_000, record) for record in downgrade),
    )
    assert [(each.kind, each.group_type, each.generation) for each in found] == [
        (Kind.SYNC_COMPLETED, "classic", 5),
        (Kind.CONVERTED, "consumer", None),
        (Kind.OBSERVED, "consumer", 6),
        (Kind.MEMBER_JOINED, "consumer", 7),
        (Kind.JOIN_COMPLETED, "consumer", 7),
        (Kind.CONVERTED, "classic", 7),
    ]


def test_a_group_that_is_deleted_and_made_again_later_is_not_converted(read: Any) -> None:
    later = [(60_000, consumer_member("g", "b")), (60_000, group_epoch("g", 2))]
    found = read((1, classic_group("g", 1, member("a", [0]))), (3, (record_key(2, "g"), None)), *later)
    assert [each.kind for each in found] == [Kind.SYNC_COMPLETED, Kind.DELETED, Kind.MEMBER_JOINED, Kind.JOIN_COMPLETED]


def test_a_group_is_loaded_in_a_new_leader_epoch_before_its_next_record() -> None:
    reader = GroupRecords(0, decode=EvidenceDecoder().decode, counts=ReadCounts())
    reader.start_epoch(3, 1_000)
    found = [*reader.read(records_at((1_000, classic_group("g", 1, member("a", [0])))))]
    reader.start_epoch(3, 2_000)
    reader.start_epoch(4, 3_000)
    later = records_at(
        (3_000, commit("g", 0, 1)), (3_000, classic_group("h", 1, member("b"))), (4_000, classic_group("g", 2, member("a", [0])))
    )
    found += [*reader.read(later), *reader.finish()]
    assert [(each.kind, each.group, each.at_ms) for each in found] == [
        (Kind.SYNC_COMPLETED, "g", 1_000),
        (Kind.SYNC_COMPLETED, "h", 3_000),
        (Kind.COMMITS, "g", 3_000),
        (Kind.LOADED, "g", 3_000),
        (Kind.SYNC_COMPLETED, "g", 4_000),
    ]
    assert found[3].evidence == {"leader_epoch": 4}


def test_every_record_is_counted_by_its_type(read: Any) -> None:
    counts = ReadCounts()
    others = [(1, (record_key(number, "g"), b"\0\0")) for number in (9, 11, 15, 17, 23, 18, 99)]
    broken = [(1, (b"\0\2\0\1g", b"\0\3\0")), (1, (b"\0\1\0\1g", b"")), (1, (b"\0", None)), (1, (b"\0\2\0\1g", b"\0\x09"))]
    read(*((1, pair) for pair in PAIRS), *others, *broken, counts=counts)
    assert counts.to_dict() == {
        "records": 19,
        "record_types": {
            "ConsumerGroupCurrentMemberAssignment": 1,
            "ConsumerGroupMemberMetadata": 1,
            "ConsumerGroupMetadata": 1,
            "ConsumerGroupRegularExpression": 1,
            "ConsumerGroupTargetAssignmentMember": 1,
            "ConsumerGroupTargetAssignmentMetadata": 1,
            "GroupMetadata": 2,
            "OffsetCommit": 1,
            "ShareGroup": 3,
            "StreamsGroup": 2,
            "unknown": 2,
        },
        "unreadable_records": 4,
        "damaged_batches": 0,
        "torn_bytes": 0,
        "aborted_records": 0,
        "pending_records": 0,
    }


@given(st.lists(st.tuples(st.sampled_from(PAIRS), st.integers(0, 60), st.integers(0, 255), st.booleans()), max_size=12))
def test_any_bytes_are_counted_and_never_raise(changes: list[tuple[tuple[bytes, bytes | None], int, int, bool]]) -> None:
    records = []
    for number, ((key, value), at, byte, is_tombstone) in enumerate(changes):
        damaged = None if is_tombstone or value is None else value[:at] + bytes([byte]) + value[at + 1 :]
        records.append(Record(number, number, key, damaged))
    counts = ReadCounts()
    reader = GroupRecords(0, decode=EvidenceDecoder().decode, counts=counts)
    list(reader.read(records))
    list(reader.finish())
    assert counts.records == len(records)


@given(st.lists(st.tuples(st.integers(0, 24), st.binary(max_size=40), st.none() | st.binary(max_size=40))))
def test_any_keys_and_values_never_raise(pairs: list[tuple[int, bytes, bytes | None]]) -> None:
    reader = GroupRecords(0, decode=EvidenceDecoder().decode, counts=ReadCounts())
    list(reader.read(Record(0, 0, number.to_bytes(2) + key, value) for number, key, value in pairs))
    list(reader.finish())
