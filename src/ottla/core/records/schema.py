"""Kafka's versioned records as tables of fields, and their bytes as values that JSON can hold: what a dump shows of a record.

It knows the encodings (KIP-482's compact and tagged fields too) and no record: the tables are its callers'. Names and shapes of the
values are those of Kafka's own JSON: ids and bytes are base64, a tagged field is left out while it has its default, a field that the
version does not have is left out. Any bytes give values or PeerError.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader

JsonValue: TypeAlias = "str | int | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
VERSION_MAX: Final = (1 << 15) - 1
_UUID_BYTES: Final = 16


class Kind(Enum):
    """The primitive types of a field."""

    INT8 = auto()
    INT16 = auto()
    UINT16 = auto()
    INT32 = auto()
    INT64 = auto()
    STRING = auto()
    BYTES = auto()
    UUID = auto()


_FIXED_BYTES: Final = {Kind.INT8: 1, Kind.INT16: 2, Kind.UINT16: 2, Kind.INT32: 4, Kind.INT64: 8, Kind.UUID: _UUID_BYTES}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is a primitive, or the fields of a struct. It is there from version `since` to `until`; with a `tag` it is
    among the tagged fields, where it is missing while it has its `default`."""

    name: str
    kind: "Kind | tuple[Field, ...]"
    is_array: bool = False
    is_nullable: bool = False
    since: int = 0
    until: int = VERSION_MAX
    tag: int | None = None
    default: JsonValue = None

    def is_in(self, version: int) -> bool:
        """Whether the field exists in a version."""
        return self.since <= version <= self.until


def array(name: str, *fields: Field, is_nullable: bool = False) -> Field:
    """A field that is a list of structs."""
    return Field(name, fields, is_array=True, is_nullable=is_nullable)


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of one record in all its versions, 0 to `version_max`; from `flexible_since` on lengths are compact and tags exist."""

    fields: tuple[Field, ...]
    version_max: int = 0
    flexible_since: int = VERSION_MAX

    def decode(self, reader: Reader, version: int) -> dict[str, JsonValue]:
        """The values of a record, without reading what follows it; PeerError when the bytes are no such record."""
        reader.flexible = version >= self.flexible_since
        return _struct(reader, self.fields, version)


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of a coordinator's records: its name in Kafka, and the tables of its key (always version 0) and its value."""

    name: str
    key: Schema
    value: Schema


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A coordinator's record as it was written; `value` None is a tombstone, which has no version."""

    record_type: int
    key: dict[str, JsonValue]
    value_version: int | None
    value: dict[str, JsonValue] | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of a type, or of a type's value version, that no table here has; `value_version` is None where the type is not known."""

    record_type: int
    value_version: int | None


def decode_record(types: Mapping[int, RecordType], key: bytes | None, value: bytes | None) -> DecodedRecord | UnknownRecord:
    """A record whose key begins with its type, and whose value with its version, both of 16 bits: those of Kafka's coordinators.

    Bytes behind the last field are passed over, as Kafka's own readers do. PeerError when the bytes are no such record.
    """
    if key is None:
        raise PeerError("a coordinator's record has no key")
    reader = Reader(key)
    number = reader.int16()
    if number not in types:
        return UnknownRecord(number, None)
    record_type = types[number]
    fields = record_type.key.decode(reader, 0)
    if value is None:
        return DecodedRecord(number, fields, None, None)
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= record_type.value.version_max:
        return UnknownRecord(number, version)
    return DecodedRecord(number, fields, version, record_type.value.decode(reader, version))


def _struct(reader: Reader, fields: tuple[Field, ...], version: int) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = {}
    for field in fields:
        if field.tag is None and field.is_in(version):
            values[field.name] = _value(reader, field, version)
    tagged = dict(reader.tagged_fields())
    if not tagged:
        return values
    return _with_tagged(values, tagged, fields, version)


def _with_tagged(values: dict[str, JsonValue], tagged: dict[int, Reader], fields: tuple[Field, ...], version: int) -> dict[str, JsonValue]:
    """The same values with the tagged fields at their places in the table; tags that it does not know are skipped."""
    merged: dict[str, JsonValue] = {}
    for field in fields:
        if field.name in values:
            merged[field.name] = values[field.name]
        elif field.tag in tagged and field.is_in(version):
            value = _value(tagged[field.tag], field, version)
            if value != field.default:
                merged[field.name] = value
    return merged


def _value(reader: Reader, field: Field, version: int) -> JsonValue:
    if field.is_array:
        count = _length(reader, field)
        if count is None:
            return None
        if count * _bytes_min(field.kind, version, reader.flexible) > reader.end - reader.at:
            raise PeerError(f"{field.name}: an array of {count} items in {reader.end - reader.at} bytes")
        return [_item(reader, field, version) for _ in range(count)]
    return _item(reader, field, version, is_nullable=field.is_nullable)


def _item(reader: Reader, field: Field, version: int, is_nullable: bool = False) -> JsonValue:
    kind = field.kind
    if isinstance(kind, tuple):
        # A struct that may be null begins with whether it is there: among the tagged fields by a varint, elsewhere by a byte.
        if is_nullable and (reader.uvarint() == 0 if field.tag is not None else reader.int8() < 0):
            return None
        return _struct(reader, kind, version)
    match kind:
        case Kind.INT8:
            return reader.int8()
        case Kind.INT16:
            return reader.int16()
        case Kind.UINT16:
            return reader.int16() & 0xFFFF
        case Kind.INT32:
            return reader.int32()
        case Kind.INT64:
            return reader.int64()
        case Kind.UUID:
            return urlsafe_b64encode(reader.raw(_UUID_BYTES)).decode().rstrip("=")
        case Kind.STRING:
            return reader.nullable_string() if is_nullable else reader.string()
        case Kind.BYTES:
            length = reader.length()
            if length == -1 and is_nullable:
                return None
            return b64encode(reader.raw(length)).decode()


def _length(reader: Reader, field: Field) -> int | None:
    """The number of items; None for a null array."""
    length = reader.length()
    if length >= 0:
        return length
    if length == -1 and field.is_nullable:
        return None
    raise PeerError(f"{field.name}: a length of {length} at {reader.at}")


def _bytes_min(kind: Kind | tuple[Field, ...], version: int, is_flexible: bool) -> int:
    """The fewest bytes that one value can take, to bound a hostile count."""
    if isinstance(kind, tuple):
        present = [field for field in kind if field.tag is None and field.is_in(version)]
        # An array takes a byte at least, for its length.
        return is_flexible + sum(
            1 if field.is_array or isinstance(field.kind, tuple) else _bytes_min(field.kind, version, is_flexible) for field in present
        )
    return _FIXED_BYTES.get(kind, 1)
