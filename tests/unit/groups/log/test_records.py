"""Records of the offsets topic and their bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.records import (
    STRING_BYTES_MAX,
    EvidenceDecoder,
    GroupMetadataRecord,
    GroupRecord,
    OffsetRecord,
    decode,
    encode_key,
    encode_value,
    group_of_event,
    group_of_record,
    keep_groups,
    refuse_long_strings,
)
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue, decode_offsets_record
from ottla.protocol.errors import PeerError
from ottla.protocol.model import OffsetCommit, Record
from ottla.protocol.record_codec import DecodedRecord, UnknownRecord
from ottla.protocol.records.batch import Batch, decode_batch, encode_batch, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.offsets_topic_records import TOPIC_ID_TEXT, classic_group, commit, gone, group_epoch, member, record_key

TS_MS = 1_700_000_000_000
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("0003000000010001740000000100000003ffffffff")
TOPIC_ID = bytes(range(16))


def offset_record(value: OffsetValue | None) -> OffsetRecord:
    return OffsetRecord(group_id="g", topic="t", partition=3, value=value)


def offset_value(**fields: object) -> OffsetValue:
    return OffsetValue(**{"offset": 42, "leader_epoch": 5, "metadata": "m", "commit_timestamp_ms": TS_MS, **fields})  # type: ignore[arg-type]


def stored_member(**fields: object) -> MemberValue:
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
        group_record((stored_member(),)),
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
            (stored_member(rebalance_timeout_ms=300_000 if version >= 1 else 45_000),),
            current_state_timestamp_ms=TS_MS if version >= 2 else -1,
        )
        assert record == expected


@pytest.mark.conformance("GroupMetadataManagerTest.testReplayGroupMetadataRecords")
def test_without_a_rebalance_timeout_the_session_timeout_counts() -> None:
    record = group_record((stored_member(rebalance_timeout_ms=-1),))
    assert decode(encode_key(record), encode_value(record)) == group_record((stored_member(rebalance_timeout_ms=45_000),))


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
    assert decode(b"\x00\x02\x00\x01g", head + b"\x02" + one + tagged) == group_record((stored_member(),))


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testDeserializeFutureOffsetCommitValue")
def test_what_later_versions_add_to_an_offset_is_passed_over() -> None:
    value = bytes.fromhex("0004000000000000002a00000005026d0000018bcfe56800")
    tagged = b"\x02\x00\x10" + TOPIC_ID + b"\x09\x02hi"
    assert decode(encode_key(offset_record(None)), value + tagged) == offset_record(offset_value(topic_id=TOPIC_ID))


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testReadMessageKeyCanReadUnknownMessage")
def test_unknown_types_are_no_error_and_no_record() -> None:
    for record_type in (9, 10, 17, 23, 999):
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
    value = encode_value(group_record((stored_member(), stored_member())))
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


def batch(*groups: str, codec: Codec = Codec.NONE, producer_id: int = -1) -> Batch:
    """Offsets from 10 on, one commit of each group."""
    records = [Record(10 + number, 100 + number, *commit(group, 0, number)) for number, group in enumerate(groups)]
    data = bytes(
        encode_batch(records, base_offset=10, codec=codec, producer_id=producer_id, is_transactional=producer_id >= 0, leader_epoch=4)
    )
    return Batch(read_header(data), data)


def test_the_group_of_any_record() -> None:
    for key, _ in (commit("g", 0, 1), classic_group("g", 1, member("a")), group_epoch("g", 2), *gone("g", "a")):
        assert group_of_record(key) == "g"
    assert [group_of_record(key) for key in (None, b"", b"\0\1\0\5g")] == [None, None, None]
    assert group_of_event(b"g") == "g"
    assert group_of_event(None) is None


@given(st.lists(st.sampled_from("gh"), min_size=1, max_size=6), st.sampled_from(Codec), st.integers(-1, 3))
def test_the_records_of_a_group_stay_what_they_are(groups: list[str], codec: Codec, producer_id: int) -> None:
    whole = batch(*groups, codec=codec, producer_id=producer_id)
    kept = keep_groups(whole, {"g"}, group_of_record)
    assert kept.header == read_header(kept.data)
    assert decode_batch(kept.data) == [record for record in decode_batch(whole.data) if group_of_record(record.key) == "g"]
    assert kept.header.record_count == groups.count("g")
    unchanged = ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "leader_epoch", "is_transactional")
    assert [getattr(kept.header, name) for name in unchanged] == [getattr(whole.header, name) for name in unchanged]


def test_a_batch_of_the_group_alone_is_the_same_bytes() -> None:
    whole = batch("g", "g", codec=Codec.GZIP)
    assert keep_groups(whole, {"g"}, group_of_record) is whole


@pytest.mark.parametrize("damage", [True, False])
def test_control_batches_and_damaged_ones_stay_whole(damage: bool) -> None:
    marker = Record(9, 0, *encode_end_marker(EndMarker(ControlType.COMMIT, 0)))
    data = bytes(encode_batch([marker], base_offset=9, producer_id=1, is_transactional=True, is_control=True))
    if damage:
        data = bytes(batch("h").data)[:-1] + b"\xff"
    whole = Batch(read_header(data), data)
    assert keep_groups(whole, {"g"}, group_of_record) is whole


def test_commits_with_and_without_a_topic_id() -> None:
    decoder = EvidenceDecoder()
    for _ in range(2):
        assert decoder.decode(*commit("g", 3, 7)) == OffsetCommit("g", "t", 3, 7, TOPIC_ID_TEXT)
    assert decoder.decode(*commit("g", 3, 7, topic_id=bytes(16))) == OffsetCommit("g", "t", 3, 7, "")
    assert decoder.decode(*commit("g", 3, None)) == OffsetCommit("g", "t", 3, None, "")


MEMBERS = st.lists(
    st.builds(
        member,
        st.text(max_size=3),
        st.lists(st.integers(0, 9), max_size=3),
        instance_id=st.none() | st.text(max_size=3),
        topics=st.lists(st.text(max_size=3), max_size=2),
        owned=st.lists(st.integers(0, 9), max_size=3),
    ),
    max_size=3,
    unique_by=lambda each: each.member_id,
)


@given(MEMBERS, st.integers(0, 9), st.integers(-1, 2**40))
def test_classic_groups_are_what_the_codec_gives(members: list[MemberValue], generation: int, joined_ms: int) -> None:
    pair = classic_group("g", generation, *members, joined_ms=joined_ms)
    assert EvidenceDecoder().decode(*pair) == decode_offsets_record(*pair)


def test_a_group_with_a_member_twice_is_damaged() -> None:
    with pytest.raises(PeerError, match="twice"):
        EvidenceDecoder().decode(*classic_group("g", 1, member("m"), member("m")))


def test_other_types_and_versions_are_unknown() -> None:
    decoder = EvidenceDecoder()
    assert decoder.decode(record_key(11, "g"), b"anything") == UnknownRecord(11, None)
    assert decoder.decode(record_key(3, "g"), b"\0\1") == UnknownRecord(3, 1)
    assert decoder.decode(commit("g", 3, 7)[0], b"\0\5") == UnknownRecord(1, 5)
    assert isinstance(decoder.decode(*group_epoch("g", 4)), DecodedRecord)


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\1\0"])
def test_bytes_that_are_no_key(key: bytes | None) -> None:
    with pytest.raises(PeerError):
        EvidenceDecoder().decode(key, b"")


VALUES = st.builds(
    OffsetValue,
    offset=st.integers(0, 2**40),
    leader_epoch=st.integers(-1, 9),
    metadata=st.text(max_size=20),
    commit_timestamp_ms=st.integers(0, 2**40),
    expire_timestamp_ms=st.none() | st.integers(1, 9),
    topic_id=st.just(bytes(16)),
)


@given(VALUES, st.text(max_size=9), st.integers(0, 99))
def test_every_commit_that_can_be_written(value: OffsetValue, group: str, partition: int) -> None:
    record = OffsetRecord(group_id=group, topic="t", partition=partition, value=value)
    found = EvidenceDecoder().decode(encode_key(record), encode_value(record))
    assert found == OffsetCommit(group, "t", partition, value.offset, "")
