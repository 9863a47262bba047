"""Tests of decoding the offsets topic for diagnosis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.evidence_decoding import EvidenceDecoder
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import MemberValue, OffsetValue, decode_offsets_record
from ottla.protocol.errors import PeerError
from ottla.protocol.model import OffsetCommit
from ottla.protocol.record_codec import DecodedRecord, UnknownRecord
from tests.support.kit.offsets_topic_records import TOPIC_ID_TEXT, classic_group, commit, group_epoch, member, record_key


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
