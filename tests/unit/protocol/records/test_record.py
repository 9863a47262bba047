"""One record: its bytes by hand, and every way in which bytes can fail to be one."""

import pytest

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.record import encode_records, iter_records

# length 12: attributes 0, timestamp +0, offset +0, key "k", value null, one header ("h", null)
GOLDEN = bytes.fromhex("14 00 00 00 02 6b 01 02 02 68 01")


def decode(section: bytes, count: int = 1, last_offset_delta: int = 0) -> list[Record]:
    return list(iter_records(section, count=count, base_offset=5, last_offset_delta=last_offset_delta, base_timestamp_ms=1000))


def test_golden_bytes() -> None:
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
