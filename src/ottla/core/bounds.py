"""Walks a message before kio reads it, and refuses lengths that its bytes cannot hold, and nulls where Kafka allows none.

kio's compiled reader makes room for an array as soon as it has read its length: four hostile bytes would make it ask for gigabytes and end
the process. So every length is checked first. A walk builds nothing; it only finds the next length.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

from ottla.core.errors import PeerError
from ottla.core.fields import uvarint
from ottla.core.model import TAGGED_FIELDS_MAX
from ottla.core.wire import Buffer

Walk = Callable[[Buffer, int, int], int]
"""From (buffer, position, end) to the position behind what was walked. Raises PeerError or IndexError when the bytes are too few."""

_FIXED_BYTES = {
    "bool": 1, "boolean": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "timedelta_i32": 4, "uint32": 4,
    "int64": 8, "timedelta_i64": 8, "datetime_i64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
_LENGTH_BYTES = {"string": 2, "bytes": 4, "records": 4}


_WALKERS: dict[type[Any], Walk] = {}


def walker(entity: type[Any]) -> Walk:
    """The walk over a whole message, or over one structure inside it; made once."""
    if entity not in _WALKERS:
        _WALKERS[entity] = _make_walker(entity)
    return _WALKERS[entity]


def _make_walker(entity: type[Any]) -> Walk:
    walks: list[Walk] = []
    fixed = 0
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            continue
        size = 0 if is_array(field) else _FIXED_BYTES.get(str(field.metadata.get("kafka_type")), 0)
        fixed += size
        if size == 0:
            if fixed:
                walks.append(_fixed(fixed))
            walks.append(field_walker(entity, field))
            fixed = 0
    if fixed:
        walks.append(_fixed(fixed))
    if entity.__flexible__:
        walks.append(walk_tagged_fields)
    return _all(tuple(walks))


def _all(walks: tuple[Walk, ...]) -> Walk:
    def walk(buffer: Buffer, at: int, end: int) -> int:
        for one in walks:
            at = one(buffer, at, end)
        if at > end:
            raise PeerError("a message that ends in the middle of a field")
        return at

    return walk


def _fixed(size: int) -> Walk:
    return lambda _buffer, at, _end: at + size


def field_walker(entity: type[Any], field: "dataclasses.Field[Any]") -> Walk:
    """The walk over one field of a structure."""
    kind = str(field.metadata.get("kafka_type"))
    flexible = bool(entity.__flexible__)
    nested = nested_entity(field)
    if is_array(field):
        return _array(flexible, item_walker(entity, field), is_nullable(field))
    if nested is not None:
        return walker(nested)
    return _fixed(_FIXED_BYTES[kind]) if kind in _FIXED_BYTES else _sized(flexible, _LENGTH_BYTES[kind], is_nullable(field))


def item_walker(entity: type[Any], field: "dataclasses.Field[Any]") -> Walk:
    """The walk over one item of an array field."""
    nested = nested_entity(field)
    if nested is not None:
        return walker(nested)
    size = fixed_item_bytes(field)
    return _fixed(size) if size else _sized(bool(entity.__flexible__), _LENGTH_BYTES[str(field.metadata.get("kafka_type"))], nullable=False)


def fixed_item_bytes(field: "dataclasses.Field[Any]") -> int:
    """The size of an array's items, where all have the same; else 0."""
    return 0 if nested_entity(field) else _FIXED_BYTES.get(str(field.metadata.get("kafka_type")), 0)


def is_nullable(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field may be null."""
    return type(None) in get_args(field.type)


def is_array(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field is an array."""
    return any(getattr(part, "__origin__", None) is tuple for part in _parts(field.type))


def nested_entity(field: "dataclasses.Field[Any]") -> type[Any] | None:
    """The class of the structures in a field; None where there are none."""
    return next((part for part in _parts(field.type) if isinstance(part, type) and dataclasses.is_dataclass(part)), None)


def _parts(annotation: Any) -> list[Any]:
    return [annotation, *(found for part in get_args(annotation) for found in _parts(part))]


def _length(buffer: Buffer, at: int, length_bytes: int) -> tuple[int, int]:
    """A length and the position behind it: a varint of one more (`length_bytes` 0), or a signed number; -1 is null."""
    if length_bytes == 0:
        length, at = uvarint(buffer, at)
        return length - 1, at
    return int.from_bytes(buffer[at : at + length_bytes], "big", signed=True), at + length_bytes


def _sized(flexible: bool, length_bytes: int, nullable: bool) -> Walk:
    """A string or bytes: a length, then so many bytes."""
    width = 0 if flexible else length_bytes
    least = -1 if nullable else 0

    def walk(buffer: Buffer, at: int, _end: int) -> int:
        length, at = _length(buffer, at, width)
        if length < least:
            raise PeerError(f"a text or bytes of length {length}")
        return at + max(length, 0)

    return walk


def array_count(buffer: Buffer, at: int, end: int, *, flexible: bool, nullable: bool) -> tuple[int, int]:
    """The number of an array's items (-1: null) and the position of the first. Raises PeerError when there cannot be so many."""
    count, at = _length(buffer, at, 0 if flexible else 4)
    if count < (-1 if nullable else 0) or count > max(end - at, 0):  # an item has at least one byte
        raise PeerError(f"an array of {count} items in {max(end - at, 0)} bytes")
    return count, at


def _array(flexible: bool, item: Walk, nullable: bool) -> Walk:
    def walk(buffer: Buffer, at: int, end: int) -> int:
        count, at = array_count(buffer, at, end, flexible=flexible, nullable=nullable)
        for _ in range(count):
            at = item(buffer, at, end)
            if at > end:
                raise PeerError("an array that ends in the middle of an item")
        return at

    return walk


def walk_tagged_fields(buffer: Buffer, at: int, end: int) -> int:
    """The walk over a section of tagged fields."""
    count, at = uvarint(buffer, at)
    if count > TAGGED_FIELDS_MAX:
        raise PeerError(f"{count} tagged fields in one structure; allowed are {TAGGED_FIELDS_MAX}")
    for _ in range(count):
        _, at = uvarint(buffer, at)
        size, at = uvarint(buffer, at)
        at += size
        if at > end:
            raise PeerError("a tagged field that is longer than its message")
    return at
