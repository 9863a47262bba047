"""Fields where they lie: plain and compact forms, nulls where they may be, and PeerError for anything else."""

import pytest

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.fields import COMPACT, ITEMS_MAX, PLAIN, Fields, bounded, int32, int64, uvarint


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_383, 16_384, 2**31, 2**35 - 1])
def test_varints(value: int) -> None:
    data, rest = bytearray(), value
    while rest >= 0x80:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    assert uvarint(b"x" + bytes(data) + b"y", 1) == (value, 1 + len(data))


def test_a_varint_has_five_bytes_at_most() -> None:
    with pytest.raises(PeerError):
        uvarint(b"\x80" * 5 + b"\0", 0)


def test_numbers_have_signs() -> None:
    assert int32(b"\0\xff\xff\xff\xfe", 1) == (-2, 5)
    assert int64(b"\xff" * 8, 0) == (-1, 8)


@pytest.mark.parametrize(
    ("fields", "text", "null", "octets", "no_octets", "array", "no_array"),
    [
        (PLAIN, b"\0\2ab", b"\xff\xff", b"\0\0\0\2ab", b"\xff\xff\xff\xff", b"\0\0\0\2ab", b"\xff\xff\xff\xff"),
        (COMPACT, b"\3ab", b"\0", b"\3ab", b"\0", b"\3ab", b"\0"),
    ],
)
def test_what_has_a_length(
    fields: Fields, text: bytes, null: bytes, octets: bytes, no_octets: bytes, array: bytes, no_array: bytes
) -> None:
    assert fields.text(text, 0) == ("ab", len(text)) == fields.nullable_text(text, 0)
    assert fields.nullable_text(null, 0) == (None, len(null))
    assert fields.octets(octets, 0) == (b"ab", len(octets))
    assert fields.length(array, 0) == (2, len(array) - 2)
    for read, data in ((fields.text, null), (fields.octets, no_octets), (fields.length, no_array), (fields.length, array[:-1])):
        with pytest.raises(PeerError):
            read(data, 0)


def test_a_plain_text_has_no_other_negative_length() -> None:
    with pytest.raises(PeerError):
        PLAIN.nullable_text(b"\xff\xfe", 0)


def test_tagged_fields_are_passed_over_and_plain_structures_have_none() -> None:
    assert COMPACT.end(b"\0", 0) == 1
    assert COMPACT.end(b"\2\0\3abc\1\0", 0) == 8
    assert PLAIN.end(b"\2", 0) == 0
    with pytest.raises(PeerError):
        COMPACT.end(b"\1\0\5ab", 0)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\5abc", b"\0\2\xff\xff", b"\x80\0"])
def test_who_reads_too_far_or_no_text_gets_an_error(data: bytes) -> None:
    @bounded
    def read(data: bytes, at: int, version: int) -> tuple[str, int]:
        return PLAIN.text(data, at)

    with pytest.raises(PeerError):
        read(data, 0, 0)
    assert read(b"\0\1a", 0, 0) == "a"


@pytest.mark.parametrize(("fields", "count"), [(PLAIN, b"\0\0\xc3\x51"), (COMPACT, b"\xd2\x86\x03")])
def test_an_array_of_too_many_items_is_refused(fields: Fields, count: bytes) -> None:
    with pytest.raises(PeerError, match=f"array of {ITEMS_MAX + 1} items; allowed are {ITEMS_MAX}"):
        fields.length(count + bytes(ITEMS_MAX + 1), 0)


def test_a_section_of_many_tagged_fields_is_refused() -> None:
    assert COMPACT.end(b"\x64" + b"\x07\0" * 100, 0) == 201
    with pytest.raises(PeerError, match="101 tagged fields"):
        COMPACT.end(b"\x65" + b"\x07\0" * 101, 0)
