"""Record batches and their records as bytes."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    RawRecord,
    crc_is_valid,
    decode_batch,
    empty_batch,
    encode_batch,
    encode_records,
    frame_batch,
    iter_records,
    join_batch,
    merge_batches,
    put_raw,
    read_header,
    read_raw,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import GZIP, ZSTD, Codec

RECORDS = [
    Record(7, 1_700_000_000_000, b"key", b"value", (Header("trace", b"1"), Header("none", None))),
    Record(8, 1_700_000_000_005, None, None),
    Record(10, 1_699_999_999_999, b"", b""),
]

# length 12: attributes 0, timestamp +0, offset +0, key "k", value null, one header ("h", null)
GOLDEN = bytes.fromhex("14 00 00 00 02 6b 01 02 02 68 01")

RECORDS_RAW = [
    Record(7, 1000, b"key", b"value", (Header("trace", b"1"), Header("none", None))),
    Record(8, 990, None, None),
    Record(10, 2000, b"", b""),
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


def decode(section: bytes, count: int = 1, last_offset_delta: int = 0) -> list[Record]:
    return list(iter_records(section, count=count, base_offset=5, last_offset_delta=last_offset_delta, base_timestamp_ms=1000))


def test_golden_bytes_of_a_record() -> None:
    record = Record(5, 1000, b"k", None, (Header("h", None),))
    assert bytes(encode_records([record], base_offset=5, base_timestamp_ms=1000)) == GOLDEN
    assert decode(GOLDEN) == [record]


@pytest.mark.parametrize("timestamp_ms", [-(1 << 63), -1, 0, 999, 1001, (1 << 62)])
def test_timestamps_may_lie_anywhere(timestamp_ms: int) -> None:
    section = encode_records([Record(5, timestamp_ms, None, b"")], base_offset=5, base_timestamp_ms=0)
    (record,) = list(iter_records(bytes(section), count=1, base_offset=5, last_offset_delta=0, base_timestamp_ms=0))
    assert record.timestamp_ms == timestamp_ms


def test_a_header_key_that_is_not_utf8_is_read_with_replacements() -> None:
    section = GOLDEN.replace(b"\x02h\x01", b"\x02\xff\x01")
    assert decode(section)[0].headers == (Header("�", None),)


@pytest.mark.parametrize(
    ("section", "count"),
    [
        (b"", 1),
        (GOLDEN, 2),
        (GOLDEN[:-1], 1),
        (GOLDEN + b"\x00", 1),
        (GOLDEN, 0),
        (b"\x16" + GOLDEN[1:] + b"\x00", 1),  # a byte too many inside the record
        (b"\x01" + GOLDEN[1:], 1),  # length -1
        (GOLDEN[:3] + b"\x02" + GOLDEN[4:], 1),  # offset delta 1 in a batch that ends at 0
        (GOLDEN[:3] + b"\x01" + GOLDEN[4:], 1),  # offset delta -1
        (GOLDEN[:4] + b"\x03" + GOLDEN[5:], 1),  # key length -2
        (GOLDEN[:4] + b"\x40" + GOLDEN[5:], 1),  # key length 32
        (GOLDEN[:7] + b"\x08" + GOLDEN[8:], 1),  # four headers
        (GOLDEN[:7] + b"\x01" + GOLDEN[8:], 1),  # minus one headers
        (GOLDEN[:8] + b"\x01" + GOLDEN[9:], 1),  # null header key
        (b"\xff\xff\xff\xff\xff\xff\xff", 1),  # a length that does not end
        (b"\xfe\xff\xff\xff\x7f\x00\x00", 1),  # a length of more than 32 bits
    ],
)
def test_what_is_no_record_is_the_peers_error(section: bytes, count: int) -> None:
    with pytest.raises(PeerError):
        decode(section, count)


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    section = encode_records([Record(0, 1 << 62, None, None)], base_offset=0, base_timestamp_ms=0)
    with pytest.raises(PeerError, match="64 bits"):
        list(iter_records(bytes(section), count=1, base_offset=0, last_offset_delta=0, base_timestamp_ms=1 << 62))


def batch(base: int, last: int, kept: list[int]) -> Batch:
    data = bytes(encode_batch([Record(offset, 0, None, b"v") for offset in kept], base_offset=base, last_offset=last))
    return Batch(read_header(data), data)


def test_one_copy_is_itself() -> None:
    log = [batch(0, 3, [0, 1, 2, 3]), batch(4, 4, [4])]
    assert list(merge_batches([log])) == log
    assert list(merge_batches([])) == []


def test_every_offset_comes_once() -> None:
    log = [batch(number, number, [number]) for number in range(6)]
    assert list(merge_batches([log[:4], log[2:], log[1:5]])) == log


def test_what_compaction_removed_from_one_copy_comes_from_the_other() -> None:
    whole, cleaned, last = batch(0, 3, [0, 1, 2, 3]), batch(0, 3, [3]), batch(7, 7, [7])
    assert list(merge_batches([[cleaned, last], [whole]])) == [whole, last]


def test_a_batch_that_overlaps_is_left_out() -> None:
    assert [each.header.base_offset for each in merge_batches([[batch(0, 5, [0, 5])], [batch(3, 3, [3]), batch(6, 6, [6])]])] == [0, 6]


@given(st.lists(st.integers(1, 4), max_size=8), st.data())
def test_copies_that_begin_and_end_anywhere_give_the_whole(sizes: list[int], data: st.DataObject) -> None:
    log, base = [], 0
    for size in sizes:
        log.append(batch(base, base + size - 1, list(range(base, base + size))))
        base += size
    cuts = [sorted(data.draw(st.tuples(st.integers(0, len(log)), st.integers(0, len(log))))) for _ in range(3)]
    merged = list(merge_batches([log[start:end] for start, end in cuts]))
    expected = sorted({each.header.base_offset for start, end in cuts for each in log[start:end]})
    assert [each.header.base_offset for each in merged] == expected
    assert all(len(decode_batch(each.data)) == each.header.record_count for each in merged)


def split(batch: bytearray) -> tuple[bytes, BatchHeader]:
    return bytes(batch[HEADER_BYTES:]), read_header(batch)


def test_they_say_what_the_decoded_records_say() -> None:
    found = list(read_raw(*split(encode_batch(RECORDS_RAW, base_offset=7))))
    assert [record[:4] for record in found] == [(7, 1000, b"key", True), (8, 990, None, False), (10, 2000, b"", True)]


@pytest.mark.parametrize("base_timestamp_ms", [0, 1_700_000_000_000])
def test_they_go_into_another_batch_unchanged(base_timestamp_ms: int) -> None:
    section = bytearray()
    for record in read_raw(*split(encode_batch(RECORDS_RAW, base_offset=7))):
        put_raw(section, record, base_offset=5, base_timestamp_ms=base_timestamp_ms)
    decoded = list(iter_records(bytes(section), count=3, base_offset=5, last_offset_delta=5, base_timestamp_ms=base_timestamp_ms))
    assert decoded == RECORDS_RAW


def test_a_header_key_that_is_not_text_goes_along() -> None:
    section = b"\x14\x00\x00\x00\x02k\x01\x02\x02\xff\x01"
    header = read_header(encode_batch([Record(0, 0, b"k", None)]))
    (record,) = read_raw(section, header)
    copy = bytearray()
    put_raw(copy, record, base_offset=0, base_timestamp_ms=0)
    assert copy == section


def test_with_log_append_time_all_take_the_largest_timestamp() -> None:
    found = read_raw(*split(encode_batch(RECORDS_RAW, base_offset=7, is_log_append_time=True)))
    assert {record.timestamp_ms for record in found} == {2000}


def test_a_time_that_is_too_far_from_the_base_is_refused() -> None:
    with pytest.raises(PeerError, match="does not fit"):
        put_raw(bytearray(), RawRecord(0, -(1 << 63), None, True, b"\x01\x00\x00"), base_offset=0, base_timestamp_ms=1)


@pytest.mark.parametrize(
    ("section", "count"),
    [
        (b"", 1),
        (b"\x0c\x00\x00\x00\x01\x00\x00", 2),
        (b"\x0c\x00\x00\x00\x01\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x00\x00\x00", 1),
        (b"\x01\x00\x00\x00\x01\x00\x00", 1),
        (b"\x7e\x00\x00\x00\x01\x00\x00", 1),
        (b"\x0c\x00\x00\x02\x01\x00\x00", 1),
        (b"\x0c\x00\x00\x00\x03\x00\x00", 1),
        (b"\x0c\x00\x00\x00\x7e\x00\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x03\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1),
        (b"\x0c\x00" + b"\xff" * 10, 1),
    ],
    ids=[
        "nothing",
        "too few for the count",
        "cut",
        "too many",
        "negative length",
        "too long",
        "offset outside",
        "negative key",
        "key too long",
        "negative value",
        "value too long",
        "endless number",
    ],
)
def test_bad_bytes_are_refused(section: bytes, count: int) -> None:
    header = read_header(encode_batch([Record(0, 0, b"k", None)]))._replace(record_count=count)
    with pytest.raises(PeerError):
        list(read_raw(section, header))


@given(st.binary(max_size=60), st.integers(0, 8), st.integers(0, 5))
def test_any_bytes_give_records_or_a_refusal(section: bytes, count: int, last_offset_delta: int) -> None:
    header = read_header(encode_batch([Record(0, 0, b"k", None)]))
    try:
        found = list(read_raw(section, header._replace(record_count=count, last_offset_delta=last_offset_delta)))
    except PeerError:
        return
    assert len(found) == count
    assert all(0 <= record.offset <= last_offset_delta for record in found)
