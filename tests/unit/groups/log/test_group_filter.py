"""Tests of batches with the records of some groups alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.group_filter import group_of_event, group_of_record, keep_groups
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, decode_batch, encode_batch, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.offsets_topic_records import classic_group, commit, gone, group_epoch, member


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
