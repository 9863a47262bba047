"""Walks a message before kio reads it, and refuses lengths that its bytes cannot hold, and nulls where Kafka allows none.

kio's compiled reader makes room for an array as soon as it has read its length: four hostile bytes would make it ask for gigabytes and end
the process. So every length is checked first. A walk builds nothing; it only finds the next length.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

from ottla.core.errors import PeerError
from ottla.core.fields import uvarint
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
        size = 0 if _is_array(field.type) else _FIXED_BYTES.get(str(field.metadata.get("kafka_type")), 0)
        fixed += size
        if size == 0:
            if fixed:
                walks.append(_fixed(fixed))
            walks.append(_field(entity, field))
            fixed = 0
    if fixed:
        walks.append(_fixed(fixed))
    if entity.__flexible__:
        walks.append(_tagged_fields)
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


def _field(entity: type[Any], field: "dataclasses.Field[Any]") -> Walk:
    kind = str(field.metadata.get("kafka_type"))
    flexible = bool(entity.__flexible__)
    nullable = type(None) in get_args(field.type)
    nested: Any = next((part for part in _parts(field.type) if dataclasses.is_dataclass(part)), None)
    if not _is_array(field.type):
        return _sized(flexible, _LENGTH_BYTES[kind], nullable) if nested is None else walker(nested)
    if nested is not None:
        item = walker(nested)
    elif kind in _FIXED_BYTES:
        item = _fixed(_FIXED_BYTES[kind])
    else:
        item = _sized(flexible, _LENGTH_BYTES[kind], nullable=False)
    return _array(flexible, item, nullable)


def _parts(annotation: Any) -> list[Any]:
    return [annotation, *(found for part in get_args(annotation) for found in _parts(part))]


def _is_array(annotation: Any) -> bool:
    return any(getattr(part, "__origin__", None) is tuple for part in _parts(annotation))


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


def _array(flexible: bool, item: Walk, nullable: bool) -> Walk:
    width = 0 if flexible else 4
    least = -1 if nullable else 0

    def walk(buffer: Buffer, at: int, end: int) -> int:
        count, at = _length(buffer, at, width)
        if count < least or count > max(end - at, 0):  # an item has at least one byte
            raise PeerError(f"an array of {count} items in {max(end - at, 0)} bytes")
        for _ in range(count):
            at = item(buffer, at, end)
            if at > end:
                raise PeerError("an array that ends in the middle of an item")
        return at

    return walk


def _tagged_fields(buffer: Buffer, at: int, end: int) -> int:
    count, at = uvarint(buffer, at)
    for _ in range(count):
        _, at = uvarint(buffer, at)
        size, at = uvarint(buffer, at)
        at += size
        if at > end:
            raise PeerError("a tagged field that is longer than its message")
    return at
