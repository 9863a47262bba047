"""The codec of records: every kind of field, in every encoding, both ways, and bytes that lie."""

from dataclasses import replace
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import (
    DecodedRecord,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordType,
    Schema,
    UInt16,
    UnknownRecord,
    Uuid,
    Wire,
    decode_record,
    record_class,
    record_from_json,
    record_json,
)
from ottla.protocol.wire.primitives import Reader, Writer
from tests.support.kit.record_values import encode_record


@record_class
class Struct:
    name: str


@record_class
class Host:
    host: str


@record_class
class EveryKind:
    tiny: Int8
    short: Int16
    port: UInt16
    number: Int32
    long: Int64
    text: str
    data: bytes
    topic_id: Annotated[Uuid, Wire(name="id")]
    numbers: tuple[Int32, ...]
    structs: tuple[Struct, ...]
    old: Annotated[Int8, Wire(until=0)] = 0
    new: Annotated[Int8, Wire(since=1)] = 0
    maybe: str | None
    none: bytes | None
    is_set: bool
    share: float
    expires_ms: Annotated[Int64 | None, Wire(null=-1)]
    where: Annotated[Host | None, Wire(since=2)] = None
    epoch: Annotated[Int32, Wire(since=2, tag=0)] = 7


EVERY_KIND = Schema(EveryKind, version_max=2, flexible_since=2)
VALUE = EveryKind(
    tiny=-1,
    short=-2,
    port=65535,
    number=-3,
    long=1 << 40,
    text="ž",
    data=b"\x01\x02",
    topic_id=bytes(range(16)),
    numbers=(4, -5),
    structs=(Struct(name="a"),),
    maybe=None,
    none=None,
    is_set=True,
    share=0.5,
    expires_ms=None,
)
JSON = {
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
    "maybe": None,
    "none": None,
    "isSet": True,
    "share": 0.5,
    "expiresMs": -1,
}


def fixed(flexible: bool = False) -> Writer:
    return Writer(flexible).int8(-1).int16(-2).int16(-1).int32(-3).int64(1 << 40)


def end(out: Writer) -> Writer:
    return out.int8(1).raw(b"\x3f\xe0" + bytes(6)).int64(-1)


def old_fields() -> bytes:
    out = fixed().string("ž").int32(2).raw(b"\x01\x02").raw(bytes(range(16)))
    out.int32(2).int32(4).int32(-5).int32(1).string("a").int8(9).nullable_string(None).int32(-1)
    return end(out).to_bytes()


def new_fields() -> Writer:
    out = fixed(flexible=True).string("ž").uvarint(3).raw(b"\x01\x02").raw(bytes(range(16)))
    out.uvarint(3).int32(4).int32(-5).uvarint(2).string("a").uvarint(0)
    return end(out.int8(9).nullable_string(None).uvarint(0))


def decoded(data: bytes, version: int) -> EveryKind:
    return EVERY_KIND.decode(Reader(data), version)


@pytest.mark.parametrize(
    ("data", "version", "value", "shown"),
    [
        (old_fields(), 0, replace(VALUE, old=9), {"old": 9}),
        (old_fields(), 1, replace(VALUE, new=9), {"new": 9}),
        (new_fields().int8(-1).uvarint(0).to_bytes(), 2, replace(VALUE, new=9), {"new": 9, "where": None}),
        (
            new_fields().int8(1).string("h").uvarint(0).uvarint(1).uvarint(0).uvarint(4).int32(8).to_bytes(),
            2,
            replace(VALUE, new=9, where=Host(host="h"), epoch=8),
            {"new": 9, "where": {"host": "h"}, "epoch": 8},
        ),
    ],
    ids=["version 0", "version 1", "version 2", "version 2 with all"],
)
def test_every_kind_both_ways(data: bytes, version: int, value: EveryKind, shown: dict[str, object]) -> None:
    assert decoded(data, version) == value
    assert EVERY_KIND.encode(Writer(), value, version).to_bytes() == data
    assert EVERY_KIND.to_json(value, version) == JSON | shown
    assert EVERY_KIND.from_json(JSON | shown, version) == value  # type: ignore[arg-type]


def test_unknown_tags_are_skipped_and_a_default_is_not_written() -> None:
    def with_tags(epoch: int) -> bytes:
        return new_fields().int8(-1).uvarint(2).uvarint(0).uvarint(4).int32(epoch).uvarint(99).uvarint(2).raw(b"??").to_bytes()

    assert decoded(with_tags(8), 2).epoch == 8
    again = EVERY_KIND.encode(Writer(), decoded(with_tags(7), 2), 2).to_bytes()
    assert again == new_fields().int8(-1).uvarint(0).to_bytes()
    assert "epoch" not in EVERY_KIND.to_json(decoded(with_tags(7), 2), 2)


def test_a_later_version_gives_the_fields_that_are_known() -> None:
    assert decoded(new_fields().int8(-1).uvarint(0).raw(b"later").to_bytes(), 3) == replace(VALUE, new=9)


def test_the_lowest_version_that_has_the_fields() -> None:
    values = [replace(VALUE, old=9), replace(VALUE, new=1), replace(VALUE, epoch=8), replace(VALUE, where=Host(host=""))]
    assert [EVERY_KIND.lowest_version(value) for value in values] == [0, 1, 2, 2]


@record_class
class Inner:
    x: Int8 = 3


@record_class
class Outer:
    inner: Annotated[Inner | None, Wire(tag=0)] = Inner()


def test_a_tagged_struct_says_by_a_varint_whether_it_is_null() -> None:
    schema = Schema(Outer, flexible_since=0)
    for data, value in ((b"\x01\x00\x01\x00", None), (b"\x01\x00\x03\x01\x05\x00", Inner(x=5)), (b"\x00", Inner())):
        assert schema.decode(Reader(data), 0) == Outer(inner=value)
        assert schema.encode(Writer(), Outer(inner=value), 0).to_bytes() == data
    with pytest.raises(PeerError, match="too many"):
        schema.decode(Reader(b"\x01\x00\x04\x01\x05\x00\x00"), 0)


@pytest.mark.parametrize(
    "damaged",
    [
        old_fields()[:-1],
        fixed().string("a").int32(-1).to_bytes(),
        fixed().string("a").int32(0).raw(bytes(16)).int32(1 << 30).to_bytes(),
        fixed().string("a").int32(0).raw(bytes(16)).int32(-1).to_bytes(),
        fixed().int16(2).raw(b"\xff\xfe").to_bytes(),
    ],
    ids=["cut off", "null bytes", "an array that cannot fit", "a null array", "not UTF-8"],
)
def test_damaged_bytes_are_a_peer_error(damaged: bytes) -> None:
    with pytest.raises(PeerError):
        decoded(damaged, 0)


@given(st.binary(max_size=200), st.integers(0, 2))
def test_any_bytes_give_values_or_a_peer_error(data: bytes, version: int) -> None:
    try:
        value = decoded(data, version)
    except PeerError:
        return
    assert value.text is not None


@record_class
class Key:
    group: str


@record_class
class Number:
    n: Int8


TYPES = {3: RecordType("Three", Schema(Key), Schema(Number, version_max=1))}


def test_a_record_has_its_type_in_the_key_and_its_version_in_the_value() -> None:
    key, group = b"\x00\x03\x00\x01g", Key(group="g")
    record = DecodedRecord(3, group, 1, Number(n=5))
    tombstone = DecodedRecord(3, group, None, None)
    for each, value, shown in ((record, b"\x00\x01\x05", {"version": "1", "data": {"n": 5}}), (tombstone, None, None)):
        assert decode_record(TYPES, key, value) == each
        assert encode_record(TYPES, each) == (key, value)
        as_json = {"key": {"type": "3", "data": {"group": "g"}}, "value": shown}
        assert record_json(TYPES, each) == as_json
        assert record_from_json(TYPES, as_json) == each
    assert decode_record(TYPES, key + b"behind", b"\x00\x01\x05behind") == record
    assert decode_record(TYPES, b"\x00\x04whatever", b"") == UnknownRecord(4, None)
    assert decode_record(TYPES, key, b"\x00\x02\x05") == UnknownRecord(3, 2)
    assert decode_record(TYPES, key, b"\xff\xff\x05") == UnknownRecord(3, -1)


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"", None), (b"\x00\x03\x00\x05g", None), (b"\x00\x03\x00\x01g", b"\x00")])
def test_a_damaged_record_is_a_peer_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        decode_record(TYPES, key, value)
