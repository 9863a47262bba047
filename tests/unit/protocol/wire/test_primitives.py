"""Primitive types as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.primitives import COMPACT, ITEMS_MAX, PLAIN, Fields, Reader, Writer, bounded, encode_uvarint, int32, int64, uvarint

READS = ["int8", "int16", "int32", "int64", "uvarint", "string", "nullable_string", "octets", "length", "int32s", "skip_tagged_fields"]


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


def test_a_section_of_many_tagged_fields_is_refused_in_place() -> None:
    assert COMPACT.end(b"\x64" + b"\x07\0" * 100, 0) == 201
    with pytest.raises(PeerError, match="101 tagged fields"):
        COMPACT.end(b"\x65" + b"\x07\0" * 101, 0)


@pytest.mark.parametrize("flexible", [False, True])
@given(data=st.binary(max_size=40), reads=st.lists(st.sampled_from(READS), min_size=1, max_size=12))
def test_any_bytes_give_values_or_peer_error(flexible: bool, data: bytes, reads: list[str]) -> None:
    read = Reader(data, flexible=flexible)
    try:
        for name in reads:
            getattr(read, name)()
        for _, field in read.tagged_fields():
            field.string()
    except PeerError:
        pass
    assert read.at <= len(data)


READ_BY_BOTH = ["text", "nullable_text", "octets", "length", "end", "int32", "int64"]


@pytest.mark.parametrize("flexible", [False, True])
@given(
    data=st.binary(max_size=60) | st.lists(st.sampled_from([b"\0", b"\1", b"\2a", b"\0\1a", b"\0\0\0\1a", b"\xff"])).map(b"".join),
    reads=st.lists(st.sampled_from(READ_BY_BOTH), min_size=1, max_size=8),
)
def test_the_fast_functions_read_what_the_reader_reads(flexible: bool, data: bytes, reads: list[str]) -> None:
    fields = COMPACT if flexible else PLAIN
    numbers = {"int32": int32, "int64": int64}
    reader = Reader(data, flexible=flexible)
    by_reader = {
        "text": reader.string,
        "nullable_text": reader.nullable_string,
        "octets": reader.octets,
        "length": lambda: _required_count(reader),
        "end": reader.skip_tagged_fields,
        "int32": reader.int32,
        "int64": reader.int64,
    }

    @bounded
    def fast(data: bytes, at: int, _version: int) -> tuple[list[object], int]:
        values: list[object] = []
        for name in reads:
            if name == "end":
                at = fields.end(data, at)
                values.append(None)
            else:
                value, at = (numbers.get(name) or getattr(fields, name))(data, at)
                values.append(value)
        return [*values, at], at

    try:
        expected = [*(by_reader[name]() for name in reads), reader.at]
    except PeerError:
        with pytest.raises(PeerError):
            fast(data, 0, 0)
    else:
        assert fast(data, 0, 0) == expected


def _required_count(reader: Reader) -> int:
    count = reader.length()
    if not 0 <= count <= reader.end - reader.at:
        raise PeerError("an array that is null or cannot fit")
    return count


def test_an_array_longer_than_its_bytes_is_refused_before_anything_is_made() -> None:
    with pytest.raises(PeerError, match="array of 2147483647 items"):
        Reader((2**31 - 1).to_bytes(4, "big")).count(1)
    assert Reader((-1).to_bytes(4, "big", signed=True)).count(1) == 0


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(PeerError, match="more than 5 bytes"):
        Reader(b"\xff" * 6).uvarint()


def test_a_section_of_many_tagged_fields_is_refused() -> None:
    few, many = (Reader(bytes([count]) + b"\x07\0" * count, flexible=True) for count in (0x64, 0x65))
    few.skip_tagged_fields()
    assert few.at == few.end
    with pytest.raises(PeerError, match="101 tagged fields"):
        many.skip_tagged_fields()


def test_a_tagged_field_is_read_within_its_size() -> None:
    ((tag, field),) = Reader(b"\1\7\1\2ab", flexible=True).tagged_fields()
    assert tag == 7
    with pytest.raises(PeerError):
        field.string()


def test_plain_structures_have_no_tagged_fields() -> None:
    read = Reader(b"\1\7\0")
    read.skip_tagged_fields()
    assert (list(read.tagged_fields()), read.at) == ([], 0)


def test_lengths_become_compact_where_the_version_is_read_first() -> None:
    read = Reader(b"\0\4\2a")
    read.flexible = read.int16() >= 4
    assert read.string() == "a"


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_round_trip(value: int) -> None:
    assert Reader(encode_uvarint(value)).uvarint() == value
    assert Writer().uvarint(value).to_bytes() == encode_uvarint(value)


@pytest.mark.parametrize("flexible", [False, True])
@given(
    text=st.text(max_size=200),
    maybe=st.none() | st.text(max_size=50),
    data=st.binary(max_size=200),
    number=st.integers(-(2**31), 2**31 - 1),
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=200),
)
def test_fields_round_trip(flexible: bool, text: str, maybe: str | None, data: bytes, number: int, numbers: list[int]) -> None:
    out = Writer(flexible).string(text).nullable_string(None).nullable_string(maybe).octets(data).int32(number)
    out.array(-1).octets_length(-1).string_length(len(data)).raw(data).int32s(numbers).boolean(True).end()
    read = Reader(out.to_bytes(), flexible=flexible)
    assert (read.string(), read.nullable_string(), read.nullable_string()) == (text, None, maybe)
    assert (read.octets(), read.int32(), read.length(), read.length()) == (data, number, -1, -1)
    assert read.raw(read.length() if flexible else read.int16()) == data
    assert (read.int32s(), read.int8()) == (tuple(numbers), 1)
    assert read.at + flexible == read.end


@given(st.integers(-(2**7), 2**7 - 1), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers_round_trip(tiny: int, short: int, long: int) -> None:
    read = Reader(Writer().int8(tiny).int16(short).int64(long).raw(b"more").data)
    assert (read.int8(), read.int16(), read.int64(), read.raw(4)) == (tiny, short, long, b"more")


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    out = Writer(flexible=True).tagged_fields({300: b"later", 1: b"first"})
    assert out.data == b"\2\1\5first\xac\2\5later"
    fields = Reader(out.data, flexible=True).tagged_fields()
    assert {tag: field.raw(field.end) for tag, field in fields} == {1: b"first", 300: b"later"}
