"""Tables of fields: every kind of field, in every encoding, and bytes that lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import PeerError
from ottla.core.records.schema import DecodedRecord, Field, Kind, RecordType, Schema, UnknownRecord, array, decode_record
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

EVERY_KIND = Schema(
    (
        Field("tiny", Kind.INT8),
        Field("short", Kind.INT16),
        Field("port", Kind.UINT16),
        Field("number", Kind.INT32),
        Field("long", Kind.INT64),
        Field("text", Kind.STRING),
        Field("data", Kind.BYTES),
        Field("id", Kind.UUID),
        Field("numbers", Kind.INT32, is_array=True),
        array("structs", Field("name", Kind.STRING)),
        Field("old", Kind.INT8, until=0),
        Field("new", Kind.INT8, since=1),
        Field("maybe", Kind.STRING, is_nullable=True),
        Field("none", Kind.BYTES, is_nullable=True),
        Field("where", (Field("host", Kind.STRING),), is_nullable=True, since=2),
        Field("epoch", Kind.INT32, since=2, tag=0, default=7),
    ),
    version_max=2,
    flexible_since=2,
)


def fixed(flexible: bool = False) -> Writer:
    return Writer(flexible).int8(-1).int16(-2).int16(-1).int32(-3).int64(1 << 40)


EXPECTED = {
    "tiny": -1,
    "short": -2,
    "port": 65535,
    "number": -3,
    "long": 1 << 40,
    "text": "ž",
    "data": "AQI=",
    "id": "AAECAwQFBgcICQoLDA0ODw",
    "numbers": [4, -5],
    "structs": [{"name": "a"}],
}


def old_fields() -> Writer:
    out = fixed().string("ž").int32(2).raw(b"\x01\x02").raw(bytes(range(16)))
    return out.int32(2).int32(4).int32(-5).int32(1).string("a").int8(9).nullable_string(None).int32(-1)


def new_fields() -> Writer:
    out = fixed(flexible=True).string("ž").uvarint(3).raw(b"\x01\x02").raw(bytes(range(16)))
    out.uvarint(3).int32(4).int32(-5).uvarint(2).string("a").uvarint(0)
    return out.int8(9).nullable_string(None).uvarint(0)


def test_every_kind_in_the_encoding_of_old_versions() -> None:
    assert EVERY_KIND.decode(Reader(old_fields().to_bytes()), 0) == EXPECTED | {"old": 9, "maybe": None, "none": None}
    assert EVERY_KIND.decode(Reader(old_fields().to_bytes()), 1) == EXPECTED | {"new": 9, "maybe": None, "none": None}


def test_every_kind_in_flexible_versions() -> None:
    expected = EXPECTED | {"new": 9, "maybe": None, "none": None}
    assert EVERY_KIND.decode(Reader(new_fields().int8(-1).uvarint(0).to_bytes()), 2) == expected | {"where": None}
    there = new_fields().int8(1).string("h").uvarint(0).uvarint(0)
    assert EVERY_KIND.decode(Reader(there.to_bytes()), 2) == expected | {"where": {"host": "h"}}


def test_tagged_fields_are_shown_unless_they_have_their_default_and_unknown_ones_are_passed_over() -> None:
    def decoded(epoch: int) -> dict[str, object]:
        tags = new_fields().int8(-1).uvarint(2).uvarint(0).uvarint(4).int32(epoch).uvarint(99).uvarint(2).raw(b"??")
        return dict(EVERY_KIND.decode(Reader(tags.to_bytes()), 2))

    assert decoded(8)["epoch"] == 8
    assert "epoch" not in decoded(7)


def test_a_tagged_struct_says_by_a_varint_whether_it_is_null() -> None:
    schema = Schema((Field("inner", (Field("x", Kind.INT8),), is_nullable=True, tag=0, default="not null"),), flexible_since=0)
    assert schema.decode(Reader(b"\x01\x00\x01\x00"), 0) == {"inner": None}
    assert schema.decode(Reader(b"\x01\x00\x03\x01\x05\x00"), 0) == {"inner": {"x": 5}}


@pytest.mark.parametrize(
    "damaged",
    [
        old_fields().to_bytes()[:-1],
        fixed().string("a").int32(-1).to_bytes(),
        fixed().string("a").int32(0).raw(bytes(16)).int32(1 << 30).to_bytes(),
        fixed().string("a").int32(0).raw(bytes(16)).int32(-1).to_bytes(),
        fixed().int16(2).raw(b"\xff\xfe").to_bytes(),
    ],
    ids=["cut off", "null bytes", "an array that cannot fit", "a null array", "not UTF-8"],
)
def test_damaged_bytes_are_a_peer_error(damaged: bytes) -> None:
    with pytest.raises(PeerError):
        EVERY_KIND.decode(Reader(damaged), 0)


@given(st.binary(max_size=200), st.integers(0, 2))
def test_any_bytes_give_values_or_a_peer_error(data: bytes, version: int) -> None:
    try:
        values = EVERY_KIND.decode(Reader(data), version)
    except PeerError:
        return
    assert values["text"] is not None


TYPES = {3: RecordType("Three", Schema((Field("group", Kind.STRING),)), Schema((Field("n", Kind.INT8),), version_max=1))}


def test_a_record_has_its_type_in_the_key_and_its_version_in_the_value() -> None:
    key = b"\x00\x03\x00\x01g"
    assert decode_record(TYPES, key, b"\x00\x01\x05") == DecodedRecord(3, {"group": "g"}, 1, {"n": 5})
    assert decode_record(TYPES, key, None) == DecodedRecord(3, {"group": "g"}, None, None)
    assert decode_record(TYPES, key + b"behind", b"\x00\x01\x05behind") == DecodedRecord(3, {"group": "g"}, 1, {"n": 5})
    assert decode_record(TYPES, b"\x00\x04whatever", b"") == UnknownRecord(4, None)
    assert decode_record(TYPES, key, b"\x00\x02\x05") == UnknownRecord(3, 2)
    assert decode_record(TYPES, key, b"\xff\xff\x05") == UnknownRecord(3, -1)


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"", None), (b"\x00\x03\x00\x05g", None), (b"\x00\x03\x00\x01g", b"\x00")])
def test_a_damaged_record_is_a_peer_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        decode_record(TYPES, key, value)
