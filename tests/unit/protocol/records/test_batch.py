"""The batch: golden bytes, its header's fields, the checksum's reach, and refusals."""

import struct

import pytest
from crc32c import crc32c

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    crc_is_valid,
    decode_batch,
    empty_batch,
    encode_batch,
    frame_batch,
    join_batch,
    read_header,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import GZIP, ZSTD, Codec
from ottla.protocol.records.record import encode_records

RECORDS = [
    Record(7, 1_700_000_000_000, b"key", b"value", (Header("trace", b"1"), Header("none", None))),
    Record(8, 1_700_000_000_005, None, None),
    Record(10, 1_699_999_999_999, b"", b""),
]


def test_the_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_golden_bytes() -> None:
    batch = encode_batch([Record(0, 1000, b"k", b"v")], leader_epoch=3)
    body = struct.pack(">hiqqqhii", 0, 0, 1000, 1000, -1, -1, -1, 1) + bytes.fromhex("10 00 00 00 02 6b 02 76 00")
    assert batch == struct.pack(">qiibI", 0, 58, 3, 2, crc32c(body)) + body


def test_the_header_of_a_batch_with_everything() -> None:
    batch = encode_batch(
        RECORDS,
        base_offset=7,
        codec=ZSTD,
        leader_epoch=4,
        producer_id=99,
        producer_epoch=2,
        base_sequence=5,
        is_transactional=True,
    )
    header = read_header(batch)
    assert header._replace(crc=0) == BatchHeader(
        7, len(batch) - 12, 4, 2, 0, 4 | 0x10, 3, 1_700_000_000_000, 1_700_000_000_005, 99, 2, 5, 3
    )
    assert (header.size_bytes, header.last_offset, header.next_offset, header.codec) == (len(batch), 10, 11, ZSTD)
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, False, False)
    assert decode_batch(batch) == RECORDS


def test_with_log_append_time_all_records_take_the_largest_timestamp() -> None:
    records = decode_batch(encode_batch(RECORDS, base_offset=7, is_log_append_time=True))
    assert {record.timestamp_ms for record in records} == {1_700_000_000_005}


def test_a_delete_horizon_is_the_base_timestamp_and_moves_no_record_in_time() -> None:
    plain, batch = encode_batch(RECORDS, base_offset=7), encode_batch(RECORDS, base_offset=7, delete_horizon_ms=1_800_000_000_000)
    header = read_header(batch)
    assert (header.attributes, header.base_timestamp_ms, header.delete_horizon_ms) == (0x40, 1_800_000_000_000, 1_800_000_000_000)
    assert (header.max_timestamp_ms, read_header(plain).delete_horizon_ms) == (1_700_000_000_005, None)
    assert decode_batch(batch) == RECORDS


def test_a_batch_may_end_behind_its_last_record() -> None:
    batch = encode_batch(RECORDS, base_offset=7, last_offset=19)
    assert (read_header(batch).last_offset, read_header(batch).record_count, decode_batch(batch)) == (19, 3, RECORDS)


def test_a_batch_is_joined_from_a_header_and_a_section() -> None:
    batch = encode_batch(RECORDS, base_offset=7, leader_epoch=3, producer_id=9)
    assert join_batch(read_header(batch)._replace(batch_length=0, crc=0), bytes(batch[HEADER_BYTES:])) == batch


def test_an_empty_batch_keeps_offsets_producer_kind_and_largest_timestamp_alone() -> None:
    batch = encode_batch(
        RECORDS,
        base_offset=7,
        codec=ZSTD,
        leader_epoch=4,
        producer_id=99,
        producer_epoch=2,
        base_sequence=5,
        is_log_append_time=True,
        is_transactional=True,
        is_control=True,
        delete_horizon_ms=1,
    )
    empty = empty_batch(read_header(batch))
    assert read_header(empty)._replace(crc=0) == BatchHeader(7, 49, 4, 2, 0, 0x38, 3, -1, 1_700_000_000_005, 99, 2, 5, 0)
    assert decode_batch(empty) == []


def test_offset_and_epoch_lie_outside_the_checksum_and_all_else_inside() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    for at in range(len(batch)):
        batch[at] ^= 1
        is_outside = at < 8 or 12 <= at < 17 or 8 <= at < 12
        assert crc_is_valid(batch, 0, len(batch)) == is_outside
        batch[at] ^= 1


def test_seal_makes_the_checksum_true_again() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    batch[35] ^= 1
    assert not crc_is_valid(batch, 0, len(batch))
    seal(batch)
    assert crc_is_valid(batch, 0, len(batch))


def test_batches_are_split_and_a_partial_last_one_is_dropped() -> None:
    first, second = encode_batch(RECORDS, base_offset=7), encode_batch(RECORDS[2:], base_offset=10, codec=GZIP)
    both = bytes(first + second)
    expected = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(split_batches(both)) == expected
    assert list(split_batches(both + both[:-1])) == [*expected, (len(both), read_header(first))]
    assert list(split_batches(both + both[: HEADER_BYTES - 1])) == expected
    assert list(split_batches(b"")) == []


def test_a_batch_is_read_at_any_position() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    assert decode_batch(memoryview(b"###" + batch + b"###"), 3) == RECORDS


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_refused(magic: int) -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    batch[16] = magic
    with pytest.raises(PeerError, match="format"):
        read_header(batch)


@pytest.mark.parametrize(("at", "layout", "value"), [(8, ">i", 48), (8, ">i", -1), (0, ">q", -1), (23, ">i", -1), (57, ">i", -1)])
def test_impossible_headers_are_refused(at: int, layout: str, value: int) -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    struct.pack_into(layout, batch, at, value)
    with pytest.raises(PeerError, match="impossible"):
        read_header(batch)


def test_too_few_bytes_for_a_header() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    for buffer, at in [(b"", 0), (batch[:60], 0), (batch, len(batch)), (batch, -1)]:
        with pytest.raises(PeerError):
            read_header(buffer, at)


def test_a_wrong_checksum_and_a_cut_batch_are_refused() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    with pytest.raises(PeerError, match="of which"):
        decode_batch(batch[:-1])
    batch[-1] ^= 1
    with pytest.raises(PeerError, match="checksum"):
        decode_batch(batch)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    batch[22] = codec
    seal(batch)
    with pytest.raises(PeerError, match="codec"):
        decode_batch(batch)


def test_a_count_that_the_bytes_cannot_hold_costs_nothing() -> None:
    batch = encode_batch(RECORDS, base_offset=7)
    struct.pack_into(">i", batch, 57, (1 << 31) - 1)
    seal(batch)
    with pytest.raises(PeerError, match="cannot hold"):
        decode_batch(batch)


def test_what_a_batch_may_inflate_to_is_limited() -> None:
    batch = encode_batch([Record(0, 0, None, bytes(10_000))], codec=GZIP)
    assert len(decode_batch(batch, decompressed_bytes_max=20_000)) == 1
    with pytest.raises(PeerError, match="more than"):
        decode_batch(batch, decompressed_bytes_max=5_000)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_are_framed_already_make_the_same_batch(codec: Codec) -> None:
    records = [Record(number, 1_700_000_000_000, b"key", b"value" * number) for number in range(100)]
    section = bytes(encode_records(records, base_offset=0, base_timestamp_ms=1_700_000_000_000))
    batch, header = frame_batch(section, 100, timestamp_ms=1_700_000_000_000, codec=codec)
    assert batch == encode_batch(records, codec=codec)
    assert header == read_header(batch)
