"""The writer: what it writes is what the reader reads, in plain and in flexible versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.wire.reader import Reader
from ottla.protocol.wire.writer import Writer, encode_uvarint


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
