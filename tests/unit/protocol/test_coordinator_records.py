"""Records of coordinators: the golden bytes, what the group coordinator writes, and every type and version both ways.

That the classes are Kafka's is shown in tests/kafka/test_record_schemas.py, against its own schemas and its own decoder.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import (
    OFFSETS_TOPIC_TYPES,
    TRANSACTION_TOPIC_TYPES,
    GroupMetadataValue,
    MemberValue,
    OffsetValue,
    TransactionKey,
    TransactionPartitions,
    TransactionValue,
    decode_offsets_record,
    offsets_record_json,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import (
    DecodedRecord,
    RecordType,
    UnknownRecord,
    decode_record,
    record_from_json,
    record_json,
)
from ottla.protocol.wire.primitives import Writer
from tests.support.kit.record_values import encode_record, values_of

OFFSET_KEY = bytes.fromhex("000100016700017400000003")
GROUP_KEY = bytes.fromhex("0002000167")
SUBSCRIPTION = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
ASSIGNMENT = bytes.fromhex("0003000000010001740000000100000003ffffffff")
COMMITTED = {"offset": 42, "metadata": "m", "commitTimestamp": 1_700_000_000_000}


def described(key: bytes, value: bytes | None) -> dict[str, Any]:
    """The record as JSON; its bytes are those that its values encode to."""
    record = decode_offsets_record(key, value)
    assert isinstance(record, DecodedRecord)
    assert encode_record(OFFSETS_TOPIC_TYPES, record) == (key, value)
    assert record_from_json(OFFSETS_TOPIC_TYPES, record_json(OFFSETS_TOPIC_TYPES, record)) == record
    return offsets_record_json(record)


def data_of(key: bytes, value: bytes | None) -> dict[str, Any]:
    data: dict[str, Any] = described(key, value)["value"]["data"]
    return data


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
    shown = described(OFFSET_KEY, bytes.fromhex(value))
    assert shown["key"]["data"] == {"group": "g", "topic": "t", "partition": 3}
    assert shown["value"] == {"version": str(version), "data": COMMITTED | more}
    assert described(b"\x00\x00" + OFFSET_KEY[2:], bytes.fromhex(value))["key"]["type"] == "0"


@pytest.mark.parametrize(("key", "record_type"), [(OFFSET_KEY, 1), (GROUP_KEY, 2), (bytes.fromhex("0003000167"), 3)])
def test_a_tombstone_has_no_value(key: bytes, record_type: int) -> None:
    shown = described(key, None)
    assert (shown["key"]["type"], shown["value"]) == (str(record_type), None)


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
    (member,) = data_of(encode_key(record), encode_value(record))["members"]
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
    assert "AAMAAAABAAF0" in str(data_of(encode_key(record), encode_value(record)))
    damaged = data_of(GROUP_KEY, (encode_value(group_record()) or b"").replace(SUBSCRIPTION, b"\x00\x03\x7f" + SUBSCRIPTION[3:]))
    assert "'subscription': 'AAN/" in str(damaged)
    assert "assignedPartitions" in str(damaged)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("0006000167", "00000000000300", {"assignmentEpoch": 3}),
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
    assert data_of(bytes.fromhex(key), bytes.fromhex(value)) == expected


def test_every_type_of_the_topic_is_there() -> None:
    assert sorted(OFFSETS_TOPIC_TYPES) == [*range(9), *range(10, 18), *range(19, 24)]
    assert {number: each.value.version_max for number, each in OFFSETS_TOPIC_TYPES.items() if each.value.version_max} == {0: 4, 1: 4, 2: 4}


def test_unknown_types_and_versions_differ_from_damage() -> None:
    assert decode_offsets_record(b"\x00\x09\x00\x01g", b"") == UnknownRecord(9, None)
    assert decode_offsets_record(GROUP_KEY, b"\x00\x05") == UnknownRecord(2, 5)
    with pytest.raises(PeerError):
        decode_offsets_record(GROUP_KEY, b"\x00\x03\x00")


@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.text(max_size=20),
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
)
def test_what_our_coordinator_writes_is_shown_as_it_is(offset: int, epoch: int, metadata: str, topic_id: bytes) -> None:
    value = OffsetValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp_ms=5, topic_id=topic_id)
    record = OffsetRecord(group_id="g", topic="t", partition=1, value=value)
    shown = data_of(encode_key(record), encode_value(record))
    assert (shown["offset"], shown["leaderEpoch"], shown["metadata"], "topicId" in shown) == (offset, epoch, metadata, any(topic_id))


@given(st.sampled_from(sorted(OFFSETS_TOPIC_TYPES)), st.binary(max_size=60), st.integers(-1, 5), st.binary(max_size=120))
def test_any_bytes_are_described_or_a_peer_error(record_type: int, key: bytes, version: int, value: bytes) -> None:
    try:
        found = decode_offsets_record(record_type.to_bytes(2) + key, version.to_bytes(2, signed=True) + value)
    except PeerError:
        return
    assert found.record_type == record_type


EVERY_TYPE = [
    pytest.param(types, number, id=record_type.name)
    for types in (OFFSETS_TOPIC_TYPES, TRANSACTION_TOPIC_TYPES)
    for number, record_type in types.items()
]


@pytest.mark.parametrize(("types", "number"), EVERY_TYPE)
@given(data=st.data())
def test_every_type_and_version_both_ways(types: Mapping[int, RecordType], number: int, data: st.DataObject) -> None:
    record_type = types[number]
    key, value = data.draw(values_of(record_type.key.type)), data.draw(values_of(record_type.value.type))
    version = data.draw(st.integers(0, record_type.value.version_max))
    encoded = encode_record(types, DecodedRecord(number, key, version, value))
    record = decode_record(types, *encoded)
    assert isinstance(record, DecodedRecord)
    assert record.key == key
    assert record.value_version == version
    # A version has not all fields: those that it has are the same, and come back as the same bytes and the same JSON.
    assert encode_record(types, record) == encoded
    shown = record_json(types, record)
    assert shown["value"]["data"] == record_type.value.to_json(value, version)
    assert record_from_json(types, json.loads(json.dumps(shown))) == record
    if version == record_type.value.version_max and number > 1:
        assert record.value == value
    position = data.draw(st.integers(0, len(encoded[1] or b"") - 1))
    damaged = bytearray(encoded[1] or b"")
    damaged[position] = data.draw(st.integers(0, 255))
    with suppress(PeerError):
        decode_record(types, encoded[0], bytes(damaged))


def test_the_versions_of_a_transaction() -> None:
    key = Writer().int16(0).string("t1").to_bytes()
    old = Writer().int16(0).int64(2).int16(3).int32(60_000).int8(1).int32(1).string("tx").int32(1).int32(0).int64(10).int64(9)
    expected = TransactionValue(
        producer_id=2,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=(TransactionPartitions(topic="tx", partition_ids=(0,)),),
        transaction_last_update_timestamp_ms=10,
        transaction_start_timestamp_ms=9,
    )
    transaction = TransactionKey(transactional_id="t1")
    assert decode_record(TRANSACTION_TOPIC_TYPES, key, old.to_bytes()) == DecodedRecord(0, transaction, 0, expected)
    new = Writer().int16(1).int64(2).int16(3).int32(60_000).int8(0).uvarint(0).int64(10).int64(-1)
    new.uvarint(2).uvarint(0).uvarint(8).int64(7).uvarint(2).uvarint(2).int16(2)
    record = decode_record(TRANSACTION_TOPIC_TYPES, key, new.to_bytes())
    assert isinstance(record, DecodedRecord)
    assert encode_record(TRANSACTION_TOPIC_TYPES, record) == (key, new.to_bytes())
    data = record_json(TRANSACTION_TOPIC_TYPES, record)["value"]["data"]
    assert data == {
        "producerId": 2,
        "previousProducerId": 7,
        "producerEpoch": 3,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 0,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": 10,
        "transactionStartTimestampMs": -1,
        "clientTransactionVersion": 2,
    }
    assert list(data)[1] == "previousProducerId", "a tagged field is shown where it stands"
