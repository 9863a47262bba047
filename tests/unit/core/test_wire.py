"""Primitive types: round trips, and hostile bytes that give PeerError and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import PeerError
from ottla.core.wire import Reader, Writer


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_round_trip(value: int) -> None:
    assert Reader(Writer().uvarint(value).to_bytes()).uvarint() == value


@given(st.text(max_size=300), st.none() | st.text(max_size=50), st.tuples(st.integers(-(2**31), 2**31 - 1)))
def test_strings_and_arrays_round_trip(text: str, maybe: str | None, numbers: tuple[int, ...]) -> None:
    out = Writer().string(text).nullable_string(maybe).compact_string(text).compact_nullable_string(maybe).compact_int32s(numbers)
    read = Reader(out.to_bytes())
    assert (read.string(), read.nullable_string()) == (text, maybe)
    assert (read.compact_string(), read.compact_nullable_string(), read.compact_int32s()) == (text, maybe, numbers)


READS = ["int8", "int16", "int32", "int64", "uvarint", "string", "nullable_string", "compact_string", "compact_nullable_string",
         "compact_int32s", "tagged_fields"]  # fmt: skip


@given(st.binary(max_size=40), st.lists(st.sampled_from(READS), min_size=1, max_size=12))
def test_any_bytes_give_values_or_peer_error(data: bytes, reads: list[str]) -> None:
    read = Reader(data)
    try:
        for name in reads:
            getattr(read, name)()
    except PeerError:
        pass
    assert read.at <= len(data)


def test_an_array_longer_than_its_bytes_is_refused_before_anything_is_made() -> None:
    with pytest.raises(PeerError, match="array of 2147483647 items"):
        Reader((2**31 - 1).to_bytes(4, "big")).count(1, compact=False)
    assert Reader((-1).to_bytes(4, "big", signed=True)).count(1, compact=False) == 0


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(PeerError, match="more than 5 bytes"):
        Reader(b"\xff" * 6).uvarint()


def test_a_section_of_many_tagged_fields_is_refused() -> None:
    few, many = Reader(b"\x64" + b"\x07\0" * 100), Reader(b"\x65" + b"\x07\0" * 101)
    few.tagged_fields()
    assert few.at == few.end
    with pytest.raises(PeerError, match="101 tagged fields"):
        many.tagged_fields()
