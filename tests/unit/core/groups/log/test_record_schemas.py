"""The tables of the offsets topic: the golden bytes, what our own writer writes, and every type with its fields' first and last.

That the tables are Kafka's is shown in tests/kafka/test_dump_log.py, against its own schemas and its own decoder.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import PeerError
from ottla.core.groups.log.record_schemas import RECORD_TYPES, describe
from ottla.core.groups.log.records import (
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberValue,
    OffsetRecord,
    OffsetValue,
    encode_key,
    encode_value,
)
from ottla.core.records.schema import DecodedRecord, UnknownRecord

OFFSET_KEY = bytes.fromhex("000100016700017400000003")
GROUP_KEY = bytes.fromhex("0002000167")
SUBSCRIPTION = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
ASSIGNMENT = bytes.fromhex("0003000000010001740000000100000003ffffffff")
COMMITTED = {"offset": 42, "metadata": "m", "commitTimestamp": 1_700_000_000_000}


def described(key: bytes, value: bytes | None) -> DecodedRecord:
    found = describe(key, value)
    assert isinstance(found, DecodedRecord)
    return found


@pytest.mark.parametrize(
    ("value", "version", "more"),
    [
        ("0000000000000000002a00016d0000018bcfe56800", 0, {}),
        ("0001000000000000002a00016d0000018bcfe568000000018bcfee8fc0", 1, {"expireTimestamp": 1_700_000_600_000}),
        ("0002000000000000002a00016d0000018bcfe56800", 2, {}),
        ("0003000000000000002a0000000500016d0000018bcfe56800", 3, {"leaderEpoch": 5}),
        (
            "0004000000000000002a00000005026d0000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
            4,
            {"leaderEpoch": 5, "topicId": "AAECAwQFBgcICQoLDA0ODw"},
        ),
        ("0004000000000000002a00000005026d0000018bcfe5680000", 4, {"leaderEpoch": 5}),
    ],
)
def test_every_version_of_an_offset(value: str, version: int, more: dict[str, object]) -> None:
    found = described(OFFSET_KEY, bytes.fromhex(value))
    assert found.key == {"group": "g", "topic": "t", "partition": 3}
    assert (found.value_version, found.value) == (version, COMMITTED | more)
    assert described(b"\x00\x00" + OFFSET_KEY[2:], bytes.fromhex(value)).record_type == 0


@pytest.mark.parametrize(("key", "record_type"), [(OFFSET_KEY, 1), (GROUP_KEY, 2), (bytes.fromhex("0003000167"), 3)])
def test_a_tombstone_has_no_value(key: bytes, record_type: int) -> None:
    found = described(key, None)
    assert (found.record_type, found.value_version, found.value) == (record_type, None, None)


def group_record(**changes: object) -> GroupMetadataRecord:
    member = MemberValue(
        member_id="m1",
        instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        subscription=SUBSCRIPTION,
        assignment=ASSIGNMENT,
    )
    values: dict[str, object] = {
        "protocol_type": "consumer",
        "generation": 7,
        "protocol": "range",
        "leader": "m1",
        "current_state_timestamp_ms": 5,
        "members": (member,),
    }
    return GroupMetadataRecord(group_id="g", value=GroupMetadataValue(**(values | changes)))  # type: ignore[arg-type]


def test_a_consumer_group_shows_what_its_members_embed() -> None:
    record = group_record()
    found = described(encode_key(record), encode_value(record))
    assert found.value is not None
    (member,) = found.value["members"]  # type: ignore[union-attr,misc]
    assert member == {
        "memberId": "m1",
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": {
            "topics": ["t"],
            "userData": None,
            "ownedPartitions": [{"topic": "t", "partitions": [0, 1]}],
            "generationId": 7,
            "rackId": "r1",
        },
        "assignment": {"assignedPartitions": [{"topic": "t", "partitions": [3]}], "userData": None},
    }


def test_bytes_of_other_protocols_and_damaged_ones_stay_base64() -> None:
    record = group_record(protocol_type="connect")
    found = described(encode_key(record), encode_value(record))
    assert "AAMAAAABAAF0" in str(found.value)
    damaged = described(GROUP_KEY, (encode_value(group_record()) or b"").replace(SUBSCRIPTION, b"\x00\x03\x7f" + SUBSCRIPTION[3:]))
    assert "'subscription': 'AAN/" in str(damaged.value)
    assert "assignedPartitions" in str(damaged.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("000600016700", "00000000000300", {"assignmentEpoch": 3}),
        (
            "000800016700026d31",
            "000000000003000000020002000102030405060708090a0b0c0d0e0f030000000000000001000100",
            {
                "memberEpoch": 3,
                "previousMemberEpoch": 2,
                "state": 0,
                "assignedPartitions": [{"topicId": "AAECAwQFBgcICQoLDA0ODw", "partitions": [0, 1]}],
                "partitionsPendingRevocation": [],
            },
        ),
    ],
)
def test_golden_bytes_of_modern_groups(key: str, value: str, expected: dict[str, object]) -> None:
    assert described(bytes.fromhex(key), bytes.fromhex(value)).value == expected


def test_every_type_of_the_topic_is_there() -> None:
    assert sorted(RECORD_TYPES) == [*range(9), *range(10, 18), *range(19, 24)]
    assert {number: each.value.version_max for number, each in RECORD_TYPES.items() if each.value.version_max} == {0: 4, 1: 4, 2: 4}


def test_unknown_types_and_versions_differ_from_damage() -> None:
    assert describe(b"\x00\x09\x00\x01g", b"") == UnknownRecord(9, None)
    assert describe(GROUP_KEY, b"\x00\x05") == UnknownRecord(2, 5)
    with pytest.raises(PeerError):
        describe(GROUP_KEY, b"\x00\x03\x00")


@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.text(max_size=20),
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
)
def test_what_our_coordinator_writes_is_shown_as_it_is(offset: int, epoch: int, metadata: str, topic_id: bytes) -> None:
    value = OffsetValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp_ms=5, topic_id=topic_id)
    record = OffsetRecord(group_id="g", topic="t", partition=1, value=value)
    shown = described(encode_key(record), encode_value(record)).value
    assert shown is not None
    assert (shown["offset"], shown["leaderEpoch"], shown["metadata"], "topicId" in shown) == (offset, epoch, metadata, any(topic_id))


@given(st.sampled_from(sorted(RECORD_TYPES)), st.binary(max_size=60), st.integers(-1, 5), st.binary(max_size=120))
def test_any_bytes_are_described_or_a_peer_error(record_type: int, key: bytes, version: int, value: bytes) -> None:
    try:
        found = describe(record_type.to_bytes(2) + key, version.to_bytes(2, signed=True) + value)
    except PeerError:
        return
    assert found.record_type == record_type
