"""Raw records: they say of a record what the decoded one says, they put it into another batch unchanged, and bad bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, encode_batch, read_header
from ottla.protocol.records.raw import RawRecord, put_raw, read_raw
from ottla.protocol.records.record import iter_records

RECORDS = [
    Record(7, 1000, b"key", b"value", (Header("trace", b"1"), Header("none", None))),
    Record(8, 990, None, None),
    Record(10, 2000, b"", b""),
]


def split(batch: bytearray) -> tuple[bytes, BatchHeader]:
    return bytes(batch[HEADER_BYTES:]), read_header(batch)


def test_they_say_what_the_decoded_records_say() -> None:
    found = list(read_raw(*split(encode_batch(RECORDS, base_offset=7))))
    assert [record[:4] for record in found] == [(7, 1000, b"key", True), (8, 990, None, False), (10, 2000, b"", True)]


@pytest.mark.parametrize("base_timestamp_ms", [0, 1_700_000_000_000])
def test_they_go_into_another_batch_unchanged(base_timestamp_ms: int) -> None:
    section = bytearray()
    for record in read_raw(*split(encode_batch(RECORDS, base_offset=7))):
        put_raw(section, record, base_offset=5, base_timestamp_ms=base_timestamp_ms)
    decoded = list(iter_records(bytes(section), count=3, base_offset=5, last_offset_delta=5, base_timestamp_ms=base_timestamp_ms))
    assert decoded == RECORDS


def test_a_header_key_that_is_not_text_goes_along() -> None:
    section = b"\x14\x00\x00\x00\x02k\x01\x02\x02\xff\x01"
    header = read_header(encode_batch([Record(0, 0, b"k", None)]))
    (record,) = read_raw(section, header)
    copy = bytearray()
    put_raw(copy, record, base_offset=0, base_timestamp_ms=0)
    assert copy == section


def test_with_log_append_time_all_take_the_largest_timestamp() -> None:
    found = read_raw(*split(encode_batch(RECORDS, base_offset=7, is_log_append_time=True)))
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
