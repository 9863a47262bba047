"""The reader: hostile bytes give PeerError and nothing else, and the fast functions of `fields` read the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.fields import COMPACT, PLAIN, bounded, int32, int64
from ottla.protocol.wire.reader import Reader

READS = ["int8", "int16", "int32", "int64", "uvarint", "string", "nullable_string", "octets", "length", "int32s", "skip_tagged_fields"]


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
