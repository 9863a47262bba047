"""Records of the offsets topic: golden bytes, every version, and PeerError for invalid bytes."""

import struct

import pytest

from ottla.groups.log.records import (
    STRING_BYTES_MAX,
    GroupMetadataRecord,
    GroupRecord,
    OffsetRecord,
    decode,
    encode_key,
    encode_value,
    refuse_long_strings,
)
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from ottla.protocol.errors import PeerError

TS_MS = 1_700_000_000_000
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("0003000000010001740000000100000003ffffffff")
TOPIC_ID = bytes(range(16))


def offset_record(value: OffsetValue | None) -> OffsetRecord:
    return OffsetRecord(group_id="g", topic="t", partition=3, value=value)


def offset_value(**fields: object) -> OffsetValue:
    return OffsetValue(**{"offset": 42, "leader_epoch": 5, "metadata": "m", "commit_timestamp_ms": TS_MS, **fields})  # type: ignore[arg-type]


def member(**fields: object) -> MemberValue:
    values: dict[str, object] = {
        "member_id": "m1",
        "instance_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "subscription": SUBSCRIPTION,
        "assignment": ASSIGNMENT,
    }
    return MemberValue(**{**values, **fields})  # type: ignore[arg-type]


def group_record(members: tuple[MemberValue, ...], **fields: object) -> GroupMetadataRecord:
    values: dict[str, object] = {
        "protocol_type": "consumer",
        "generation": 7,
        "protocol": "range",
        "leader": "m1",
        "current_state_timestamp_ms": TS_MS,
    }
    return GroupMetadataRecord(group_id="g", value=GroupMetadataValue(members=members, **{**values, **fields}))  # type: ignore[arg-type]


GOLDEN: list[tuple[GroupRecord, str, str | None]] = [
    (offset_record(None), "000100016700017400000003", None),
    (
        offset_record(offset_value(leader_epoch=-1, expire_timestamp_ms=TS_MS + 600_000)),
        "000100016700017400000003",
        "0001000000000000002a00016d0000018bcfe568000000018bcfee8fc0",
    ),
    (
        offset_record(offset_value()),
        "000100016700017400000003",
        "0004000000000000002a00000005026d0000018bcfe5680000",
    ),
    (
        offset_record(offset_value(topic_id=TOPIC_ID)),
        "000100016700017400000003",
        "0004000000000000002a00000005026d0000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
    ),
    (GroupMetadataRecord(group_id="g", value=None), "0002000167", None),
    (
        group_record((member(),)),
        "0002000167",
        "00030008636f6e73756d657200000007000572616e676500026d310000018bcfe568000000000100026d31ffff000163000a2f3132372e302e"
        "302e31000493e00000afc80000000d000000000001000174ffffffff000000150003000000010001740000000100000003ffffffff",
    ),
    (
        group_record((), generation=8, protocol=None, leader=None),
        "0002000167",
        "00030008636f6e73756d657200000008ffffffff0000018bcfe5680000000000",
    ),
]


@pytest.mark.conformance(
    "GroupMetadataManagerTest.scala.testSerdeOffsetCommitValue",
    "GroupMetadataManagerTest.scala.testSerdeOffsetCommitValueWithExpireTimestamp",
    "GroupMetadataManagerTest.scala.testSerdeOffsetCommitValueWithNoneExpireTimestamp",
    "GroupMetadataManagerTest.scala.testSerializeGroupMetadataValueToHighestNonFlexibleVersion",
    "GroupMetadataManagerTest.scala.testSerializeOffsetCommitValueToHighestNonFlexibleVersion",
    "GroupMetadataManagerTest.scala.testDeserializeHighestSupportedOffsetCommitValueVersion",
    "GroupMetadataManagerTest.scala.testLoadOffsetWithExplicitRetention",
)
@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_bytes_are_kafkas_own(record: GroupRecord, key: str, value: str | None) -> None:
    encoded = encode_value(record)
    assert encode_key(record).hex() == key
    assert (None if encoded is None else encoded.hex()) == value
    assert decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == record


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadOffsetFromOldCommit")
def test_older_offset_values_are_read() -> None:
    key = encode_key(offset_record(None))
    text = struct.pack(">h", 1) + b"m"
    stamp = struct.pack(">q", TS_MS)
    expected = offset_record(offset_value(leader_epoch=-1))
    for version in (0, 2):
        assert decode(key, struct.pack(">hq", version, 42) + text + stamp) == expected
    assert decode(b"\x00\x00" + key[2:], struct.pack(">hq", 0, 42) + text + stamp) == expected
    without_expiry = struct.pack(">hq", 1, 42) + text + stamp + struct.pack(">q", -1)
    assert decode(key, without_expiry) == expected
    version_3 = bytes.fromhex("0003000000000000002a0000000500016d0000018bcfe56800")  # what Kafka 2.1 to 4.0 wrote
    assert decode(key, version_3) == offset_record(offset_value())


@pytest.mark.conformance(
    "GroupMetadataManagerTest.scala.testReadFromOldGroupMetadata",
    "GroupMetadataManagerTest.scala.testCurrentStateTimestampForAllGroupMetadataVersions",
)
def test_older_group_values_are_read() -> None:
    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    for version in (0, 1, 2):
        head = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 7) + text("range") + text("m1")
        state = struct.pack(">q", TS_MS) if version >= 2 else b""
        timeouts = (struct.pack(">i", 300_000) if version >= 1 else b"") + struct.pack(">i", 45_000)
        data = b"".join(struct.pack(">i", len(each)) + each for each in (SUBSCRIPTION, ASSIGNMENT))
        one = text("m1") + text("c") + text("/127.0.0.1") + timeouts + data
        record = decode(b"\x00\x02\x00\x01g", head + state + struct.pack(">i", 1) + one)
        expected = group_record(
            (member(rebalance_timeout_ms=300_000 if version >= 1 else 45_000),),
            current_state_timestamp_ms=TS_MS if version >= 2 else -1,
        )
        assert record == expected


@pytest.mark.conformance("GroupMetadataManagerTest.testReplayGroupMetadataRecords")
def test_without_a_rebalance_timeout_the_session_timeout_counts() -> None:
    record = group_record((member(rebalance_timeout_ms=-1),))
    assert decode(encode_key(record), encode_value(record)) == group_record((member(rebalance_timeout_ms=45_000),))


@pytest.mark.conformance(
    "GroupMetadataManagerTest.scala.testDeserializeHighestSupportedGroupMetadataValueVersion",
    "GroupMetadataManagerTest.scala.testDeserializeFutureGroupMetadataValue",
)
def test_the_flexible_group_value_is_read() -> None:
    def text(value: str) -> bytes:
        return bytes([len(value) + 1]) + value.encode()

    one = text("m1") + b"\x00" + text("c") + text("/127.0.0.1") + struct.pack(">ii", 300_000, 45_000)
    one += bytes([len(SUBSCRIPTION) + 1]) + SUBSCRIPTION + bytes([len(ASSIGNMENT) + 1]) + ASSIGNMENT + b"\x00"
    head = b"\x00\x04" + text("consumer") + struct.pack(">i", 7) + text("range") + text("m1") + struct.pack(">q", TS_MS)
    tagged = b"\x01\x09\x02hi"
    assert decode(b"\x00\x02\x00\x01g", head + b"\x02" + one + tagged) == group_record((member(),))


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testDeserializeFutureOffsetCommitValue")
def test_what_later_versions_add_to_an_offset_is_passed_over() -> None:
    value = bytes.fromhex("0004000000000000002a00000005026d0000018bcfe56800")
    tagged = b"\x02\x00\x10" + TOPIC_ID + b"\x09\x02hi"
    assert decode(encode_key(offset_record(None)), value + tagged) == offset_record(offset_value(topic_id=TOPIC_ID))


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testReadMessageKeyCanReadUnknownMessage")
def test_unknown_types_are_no_error_and_no_record() -> None:
    for record_type in (3, 4, 5, 16, 23, 999):
        assert decode(struct.pack(">h", record_type) + b"whatever", b"\x00\x00") is None


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testShouldThrowExceptionForUnsupportedGroupMetadataVersion")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\x00", b""),
        (b"\xff\xff", b""),
        (b"\x00\x01\x00\x09g", b""),
        (b"\x00\x02\x00\x01\xff", b""),
        (b"\x00\x02\x00\x01g", b"\x00\x05"),
        (b"\x00\x02\x00\x01g", b"\xff\xff"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\x00\x08consumer"),
        (encode_key(offset_record(None)), b"\x00\x05" + bytes(40)),
        (encode_key(offset_record(None)), b"\x00\x03\x00\x00"),
        (
            encode_key(offset_record(None)),
            bytes.fromhex("0004000000000000002a00000005026d0000018bcfe5680001000401020304"),
        ),
    ],
)
def test_wrong_bytes_are_the_peers_fault(key: bytes | None, value: bytes) -> None:
    with pytest.raises(PeerError):
        decode(key, value)


def test_a_count_that_cannot_be_is_refused_before_memory_is_taken() -> None:
    many = b"\x00\x03\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff" + bytes(8) + b"\x7f\xff\xff\xff"
    with pytest.raises(PeerError):
        decode(b"\x00\x02\x00\x01g", many)


def test_a_member_named_twice_is_refused() -> None:
    value = encode_value(group_record((member(), member())))
    with pytest.raises(PeerError, match="twice"):
        decode(b"\x00\x02\x00\x01g", value)


def test_strings_that_no_record_can_hold_are_refused() -> None:
    refuse_long_strings("x" * STRING_BYTES_MAX, None, "é" * 16_383)
    for text in ("x" * (STRING_BYTES_MAX + 1), "é" * 16_384):
        with pytest.raises(PeerError):
            refuse_long_strings("g", text)


@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize("topic_id", [TOPIC_ID, bytes(16)])
def test_the_short_cut_for_the_common_value_reads_what_the_long_way_reads(metadata: str, topic_id: bytes) -> None:
    record = offset_record(offset_value(metadata=metadata, topic_id=topic_id))
    assert decode(encode_key(record), encode_value(record)) == record


def test_a_value_of_the_common_size_that_is_none_of_the_common_ones() -> None:
    key = encode_key(offset_record(None))
    # As long as version 4 with a topic id and no metadata: one unknown tag in place of the id, and metadata in place of the tags.
    head = struct.pack(">hqi", 4, 42, 5)
    other_tag = head + b"\1" + struct.pack(">q", TS_MS) + bytes([1, 7, 16]) + TOPIC_ID
    long_metadata = head + bytes([20]) + b"m" * 19 + struct.pack(">q", TS_MS) + b"\0"
    assert len(other_tag) == 42
    assert decode(key, other_tag) == offset_record(offset_value(metadata=""))
    assert len(long_metadata) == 43
    assert decode(key, long_metadata) == offset_record(offset_value(metadata="m" * 19))
    assert decode(key, head + bytes([19]) + b"m" * 18 + struct.pack(">q", TS_MS) + b"\0") == offset_record(offset_value(metadata="m" * 18))
