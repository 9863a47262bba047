"""Our own encoders write what kio writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.pack import Packer, uvarint
from ottla.core.wire import Reader


@given(st.integers(0, 2**31))
def test_uvarint_is_what_the_reader_reads(value: int) -> None:
    assert Reader(uvarint(value)).uvarint() == value


@pytest.mark.parametrize("flexible", [False, True])
@given(text=st.text(max_size=200), data=st.binary(max_size=200), number=st.integers(-(2**31), 2**31 - 1))
def test_fields_round_trip(flexible: bool, text: str, data: bytes, number: int) -> None:
    out = Packer(flexible).string(text).nullable_string(None).octets(data).int32(number).array(-1).boolean(True).end()
    read = Reader(out.data)
    assert (read.compact_string() if flexible else read.string()) == text
    assert (read.compact_nullable_string() if flexible else read.nullable_string()) is None
    length = read.uvarint() - 1 if flexible else read.int32()
    assert read.raw(length) == data
    assert read.int32() == number
    assert (read.uvarint() - 1 if flexible else read.int32()) == -1
    assert read.int8() == 1
    assert read.at + flexible == read.end
