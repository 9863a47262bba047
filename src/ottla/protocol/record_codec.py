"""The codec of Kafka's versioned records, both ways: bytes, values of a class, and the JSON that Kafka's tools print.

A record is a dataclass (or a NamedTuple) whose annotations say how its fields lie on the wire, in their order: `str`, `bytes`, `bool`,
`float`, the numbers below, tuples of those or of other such classes, `| None` for what may be null, and `Wire` for a field that not every
version has or that is a tagged field (KIP-482). A `Schema` adds the versions. Lengths are checked before memory is taken; any bytes give
values or PeerError. Tags that a class does not have are skipped, and so are bytes behind the last field, as Kafka's readers do.
"""

import dataclasses
import types
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from struct import Struct, pack, unpack
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.primitives import Reader, Writer

JsonValue: TypeAlias = "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
VERSION_MAX: Final = (1 << 15) - 1
ID_BYTES: Final = 16
NO_ID: Final = bytes(ID_BYTES)
_FLOAT64: Final = Struct(">d")
_REQUIRED: Final = object()
T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record_class(record: type[T]) -> type[T]:
    """Make a class one of a record's values: a frozen dataclass with keywords only."""
    return dataclass(frozen=True, slots=True, kw_only=True)(record)


@dataclass(frozen=True, slots=True)
class Wire:
    """A field that exists from version `since` to `until` (in others it has its default); with a `tag` it is a tagged field, missing while
    it has its default. `name`: Kafka's, where it is not the attribute's in camel case. `null`: the number that stands for None. `absent`:
    the default, where the class has none."""

    since: int = 0
    until: int = VERSION_MAX
    tag: int | None = None
    name: str = ""
    null: int | None = None
    absent: Any = _REQUIRED


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one type are read, written and shown in one version. `bytes_min`: the fewest that one can take; `array`: the letter of
    `struct` for numbers, which are read many at once."""

    read: Callable[[Reader], Any]
    write: Callable[[Writer, Any], object]
    bytes_min: int
    to_json: Callable[[Any], Any] = lambda value: value
    from_json: Callable[[Any], Any] = lambda value: value
    letter: str = ""


def _read_uuid(reader: Reader) -> bytes:
    return reader.raw(ID_BYTES)


@lru_cache(maxsize=1 << 16)
def uuid_text(value: bytes) -> str:
    """An id as Kafka prints it; records repeat the ids of few topics."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def _read_nullable_bytes(reader: Reader) -> bytes | None:
    length = reader.length()
    return None if length < 0 else reader.raw(length)


def _write_nullable_bytes(out: Writer, value: bytes | None) -> None:
    if value is None:
        out.octets_length(-1)
    else:
        out.octets(value)


_INT8: Final = _Codec(Reader.int8, Writer.int8, 1, letter="b")
_INT16: Final = _Codec(Reader.int16, Writer.int16, 2, letter="h")
_UINT16: Final = _Codec(lambda reader: reader.int16() & 0xFFFF, lambda out, value: out.raw(value.to_bytes(2)), 2, letter="H")
_INT32: Final = _Codec(Reader.int32, Writer.int32, 4, letter="i")
_INT64: Final = _Codec(Reader.int64, Writer.int64, 8, letter="q")
_UUID: Final = _Codec(_read_uuid, Writer.raw, ID_BYTES, uuid_text, lambda text: urlsafe_b64decode(text + "=="))
_PLAIN_TYPES: Final[Mapping[object, _Codec]] = {
    str: _Codec(Reader.string, Writer.string, 1),
    bytes: _Codec(Reader.octets, Writer.octets, 1, lambda data: b64encode(data).decode(), b64decode),
    bool: _Codec(lambda reader: reader.int8() != 0, Writer.boolean, 1),
    float: _Codec(lambda reader: _FLOAT64.unpack(reader.raw(8))[0], lambda out, value: out.raw(_FLOAT64.pack(value)), 8),
}
_NULLABLE_TYPES: Final[Mapping[object, tuple[Callable[[Reader], Any], Callable[[Writer, Any], object]]]] = {
    str: (Reader.nullable_string, Writer.nullable_string),
    bytes: (_read_nullable_bytes, _write_nullable_bytes),
}

Int8: TypeAlias = Annotated[int, _INT8]
Int16: TypeAlias = Annotated[int, _INT16]
UInt16: TypeAlias = Annotated[int, _UINT16]
Int32: TypeAlias = Annotated[int, _INT32]
Int64: TypeAlias = Annotated[int, _INT64]
Uuid: TypeAlias = Annotated[bytes, _UUID]


@dataclass(frozen=True, slots=True)
class Schema(Generic[T]):
    """The record class `type` in its versions, 0 to `version_max`; from `flexible_since` on lengths are compact and tagged fields exist."""

    type: type[T]
    version_max: int = 0
    flexible_since: int = VERSION_MAX

    @property
    def _fields(self) -> "tuple[_Field, ...]":
        return _fields(cast(Hashable, self.type))

    def _codec(self, version: int) -> _Codec:
        return _struct(cast(Hashable, self.type), min(version, self.version_max), version >= self.flexible_since)

    def decode(self, reader: Reader, version: int) -> T:
        """The value that begins here; of a later version, the fields that this one has. PeerError when the bytes are no such record."""
        reader.flexible = version >= self.flexible_since
        value: T = self._codec(version).read(reader)
        return value

    def encode(self, out: Writer, value: T, version: int) -> Writer:
        """Append a value; fields that the version does not have are left out."""
        out.flexible = version >= self.flexible_since
        self._codec(version).write(out, value)
        return out

    def to_json(self, value: T, version: int) -> dict[str, JsonValue]:
        """The value as Kafka's tools print it: ids and bytes are base64, tagged fields are left out while they have their default."""
        shown: dict[str, JsonValue] = self._codec(version).to_json(value)
        return shown

    def from_json(self, shown: Mapping[str, JsonValue], version: int) -> T:
        """The value that was printed so. Raises ValueError, TypeError or KeyError for other JSON."""
        value: T = self._codec(version).from_json(shown)
        return value

    def lowest_version(self, value: T) -> int:
        """The first version that has all fields of this value that do not have their default."""
        if not self.version_max:
            return 0
        later = _later_fields(cast(Hashable, self.type))
        return max([field.wire.since for field in later if getattr(value, field.attribute) != field.default], default=0)

    def names(self) -> frozenset[str]:
        """Kafka's names of its fields."""
        return frozenset(field.name for field in self._fields)


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of a coordinator's records: its name in Kafka, the classes of its key (always version 0) and its value."""

    name: str
    key: Schema[Any]
    value: Schema[Any]

    def encode_key(self, number: int, key: Any) -> bytes:
        """The key of a record, which begins with the number of its type."""
        return self.key.encode(Writer().int16(number), key, 0).to_bytes()

    def encode_value(self, value: Any, version: int) -> bytes:
        """The value of a record, which begins with its version."""
        return self.value.encode(Writer().int16(version), value, version).to_bytes()


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A coordinator's record as it was written: values of its type's classes; `value` None is a tombstone, which has no version."""

    record_type: int
    key: Any
    value_version: int | None
    value: Any


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of a type, or of a type's value version, that no table here has; `value_version` is None where the type is not known."""

    record_type: int
    value_version: int | None


def decode_record(types: Mapping[int, RecordType], key: bytes | None, value: bytes | None) -> DecodedRecord | UnknownRecord:
    """A record whose key begins with its type, and whose value with its version, both of 16 bits: those of Kafka's coordinators."""
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


def record_json(types: Mapping[int, RecordType], record: DecodedRecord) -> dict[str, Any]:
    """A coordinator's record as Kafka's dump prints it: {"key": {"type", "data"}, "value": {"version", "data"}}, or a null value."""
    record_type = types[record.record_type]
    key = {"type": str(record.record_type), "data": record_type.key.to_json(record.key, 0)}
    if record.value is None or record.value_version is None:
        return {"key": key, "value": None}
    data = record_type.value.to_json(record.value, record.value_version)
    return {"key": key, "value": {"version": str(record.value_version), "data": data}}


def record_from_json(types: Mapping[int, RecordType], shown: Mapping[str, Any]) -> DecodedRecord:
    """The record that was printed so. Raises ValueError, TypeError or KeyError for other JSON."""
    number = int(shown["key"]["type"])
    record_type = types[number]
    key = record_type.key.from_json(shown["key"]["data"], 0)
    if shown["value"] is None:
        return DecodedRecord(number, key, None, None)
    version = int(shown["value"]["version"])
    return DecodedRecord(number, key, version, record_type.value.from_json(shown["value"]["data"], version))


class _Field:
    """An attribute of a record class: its annotation taken apart. `default` is _REQUIRED where it has none."""

    def __init__(self, attribute: str, annotation: Any, default: Any) -> None:
        wire = Wire()
        self.is_nullable = False
        self.codec: _Codec | None = None
        while get_origin(annotation) in (Annotated, Union, types.UnionType):
            if get_origin(annotation) is Annotated:
                annotation, *notes = get_args(annotation)
                wire = next((note for note in notes if isinstance(note, Wire)), wire)
                self.codec = next((note for note in notes if isinstance(note, _Codec)), self.codec)
            else:
                self.is_nullable = True
                (annotation,) = [part for part in get_args(annotation) if part is not types.NoneType]
        first, *rest = attribute.split("_")
        self.attribute = attribute
        self.name = wire.name or first + "".join(word.capitalize() for word in rest)
        self.type = annotation
        self.wire = wire
        self.default = default if default is not dataclasses.MISSING else wire.absent

    def in_version(self, version: int, flexible: bool) -> _Codec:
        """The codec of the field's values."""
        wire, codec = self.wire, self.codec or _PLAIN_TYPES.get(self.type)
        if get_origin(self.type) is tuple:
            item = _Field("", get_args(self.type)[0], None).in_version(version, flexible)
            return _array(self.name, item, self.is_nullable)
        if codec is None:
            codec = _struct(self.type, version, flexible)
            return _nullable_struct(codec, is_tagged=wire.tag is not None) if self.is_nullable else codec
        if not self.is_nullable:
            return codec
        if wire.null is not None:
            return _nullable_number(codec, wire.null)
        read, write = _NULLABLE_TYPES[self.type]
        to_json, from_json = codec.to_json, codec.from_json
        return _Codec(
            read,
            write,
            codec.bytes_min,
            lambda value: None if value is None else to_json(value),
            lambda shown: None if shown is None else from_json(shown),
        )


def _nullable_number(codec: _Codec, null: int) -> _Codec:
    def read(reader: Reader) -> int | None:
        number: int = codec.read(reader)
        return None if number == null else number

    def shown(value: int | None) -> int:
        return null if value is None else value

    def write(out: Writer, value: int | None) -> None:
        codec.write(out, shown(value))

    return _Codec(read, write, codec.bytes_min, shown, lambda number: None if number == null else number)


def _nullable_struct(codec: _Codec, *, is_tagged: bool) -> _Codec:
    """A struct that may be null begins with whether it is there: among the tagged fields by a varint, elsewhere by a byte."""

    def read(reader: Reader) -> Any:
        is_null = reader.uvarint() == 0 if is_tagged else reader.int8() < 0
        return None if is_null else codec.read(reader)

    def write(out: Writer, value: Any) -> None:
        if is_tagged:
            out.uvarint(value is not None)
        else:
            out.int8(-1 if value is None else 1)
        if value is not None:
            codec.write(out, value)

    return _Codec(
        read,
        write,
        1,
        lambda value: None if value is None else codec.to_json(value),
        lambda shown: None if shown is None else codec.from_json(shown),
    )


def _array(name: str, item: _Codec, is_nullable: bool) -> _Codec:
    read_item, write_item = item.read, item.write

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.length()
        if count < 0:
            if count == -1 and is_nullable:
                return None
            raise PeerError(f"{name}: a length of {count} at {reader.at}")
        if count * item.bytes_min > reader.end - reader.at:
            raise PeerError(f"{name}: an array of {count} items in {reader.end - reader.at} bytes")
        if item.letter:
            return unpack(f">{count}{item.letter}", reader.raw(count * item.bytes_min))
        return tuple([read_item(reader) for _ in range(count)])

    def write(out: Writer, values: Sequence[Any] | None) -> None:
        out.array(-1 if values is None else len(values))
        if item.letter and values:
            out.raw(pack(f">{len(values)}{item.letter}", *values))
            return
        for value in values or ():
            write_item(out, value)

    return _Codec(
        read,
        write,
        1,
        lambda values: None if values is None else [item.to_json(value) for value in values],
        lambda shown: None if shown is None else tuple([item.from_json(value) for value in shown]),
    )


@cache
def _fields(record: Any) -> tuple[_Field, ...]:
    defaults: Mapping[str, Any] = getattr(record, "_field_defaults", {})
    if dataclasses.is_dataclass(record):
        defaults = {field.name: field.default for field in dataclasses.fields(record)}
    hints = get_type_hints(record, include_extras=True)
    return tuple(_Field(name, annotation, defaults.get(name, dataclasses.MISSING)) for name, annotation in hints.items())


@cache
def _later_fields(record: Any) -> tuple[_Field, ...]:
    return tuple(field for field in _fields(record) if field.wire.since)


@cache
def _struct(record: Any, version: int, flexible: bool) -> _Codec:
    """The codec of a class's values in one version."""
    here = [field for field in _fields(record) if field.wire.since <= version <= field.wire.until]
    codecs = {field.attribute: field.in_version(version, flexible) for field in here}
    plain = [field.attribute for field in here if field.wire.tag is None]
    tagged = {field.wire.tag: field for field in sorted(here, key=lambda field: field.wire.tag or 0) if field.wire.tag is not None}
    absent = {field.attribute: field.default for field in _fields(record) if field.attribute not in plain}
    assert _REQUIRED not in absent.values(), f"{record.__name__}: a field that may be missing needs a default"

    def read_tagged(reader: Reader) -> dict[str, Any]:
        at = reader.at
        if at < reader.end and reader.buffer[at] == 0:
            reader.at = at + 1
            return absent
        values = {**absent}
        for tag, section in dict(reader.tagged_fields()).items():
            if tag in tagged:
                attribute = tagged[tag].attribute
                values[attribute] = codecs[attribute].read(section)
                if section.at != section.end:
                    raise PeerError(f"the tagged field {tagged[tag].name} has {section.end - section.at} bytes too many")
        return values

    def write_tagged(out: Writer, value: Any) -> None:
        sections = {}
        for tag, field in tagged.items():
            tagged_value = getattr(value, field.attribute)
            if tagged_value != field.default:
                section = Writer(flexible=True)
                codecs[field.attribute].write(section, tagged_value)
                sections[tag] = section.data
        out.tagged_fields(sections)

    # One expression that names every field, as somebody would write it for one class, takes two thirds of the time of a loop over them.
    names = {
        "record": record,
        "absent": absent,
        "read_tagged": read_tagged,
        "write_tagged": write_tagged,
        "skip_tagged": Reader.skip_tagged_fields,
    }
    names |= {f"read_{attribute}": codecs[attribute].read for attribute in plain}
    names |= {f"write_{attribute}": codecs[attribute].write for attribute in plain}
    reads = [f"{attribute}=read_{attribute}(reader)" for attribute in plain]
    reads += ["**read_tagged(reader)"] if tagged else [f"{attribute}=absent['{attribute}']" for attribute in absent]
    writes = [f"write_{attribute}(out, value.{attribute})" for attribute in plain]
    writes += ["write_tagged(out, value)"] if tagged else ["out.end()"] if flexible else []
    made = f"record({', '.join(reads)})"
    if flexible and not tagged:
        made = f"({made}, skip_tagged(reader))[0]"
    read = eval(f"lambda reader: {made}", names)  # the names are those of our own classes
    write = eval(f"lambda out, value: ({', '.join(writes)},)" if writes else "lambda out, value: None", names)

    def to_json(value: Any) -> dict[str, JsonValue]:
        shown = {}
        for field in here:
            field_value = getattr(value, field.attribute)
            if field.wire.tag is None or field_value != field.default:
                shown[field.name] = codecs[field.attribute].to_json(field_value)
        return shown

    def from_json(shown: Mapping[str, Any]) -> Any:
        values = {**absent}
        for field in here:
            if field.wire.tag is None or field.name in shown:
                values[field.attribute] = codecs[field.attribute].from_json(shown[field.name])
        return record(**values)

    bytes_min = flexible + sum(codecs[attribute].bytes_min for attribute in plain)
    return _Codec(read, write, bytes_min, to_json, from_json)
