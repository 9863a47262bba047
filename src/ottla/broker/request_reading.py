"""Large requests, decoded in pieces: for each message class a generator that yields after every few elements and ends with the object.

A small request is decoded at once by kio (`messages.request_decoder`). Here, too, every length is checked before anything is built
(`core.bounds`), and kio reads the fields. The elements of all arrays are counted and bounded: a frame full of empty strings must not
become gigabytes of objects.
"""

import dataclasses
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial._parse import get_field_reader, get_reader  # kio has no public name for the reader of one field
from kio.serial.readers import Reader
from kio.static.constants import EntityType

from ottla.broker.messages import entity_of
from ottla.core.bounds import (
    Walk,
    array_count,
    field_walker,
    fixed_item_bytes,
    is_array,
    is_nullable,
    item_walker,
    nested_entity,
    walk_tagged_fields,
)
from ottla.core.errors import PeerError

AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""A smaller request is decoded at once: its elements, some thousand at most, take a few milliseconds."""
ELEMENTS_MAX: Final = 100_000
"""Elements of all arrays of one request together: names, topics, partitions, numbers. Each takes up to 400 bytes when it is decoded."""
PIECE: Final = 256
"""So many elements are decoded before other requests continue: about 0.2 ms."""

Reading = Generator[None, None, Any]
_Step = Generator[None, None, tuple[Any, int]]
_Read = Callable[["_Source", int], tuple[Any, int]]
"""From a position to a value and the position behind it."""
_ReadInPieces = Callable[["_Source", int], _Step]
_Field = tuple[_Read, None] | tuple[None, _ReadInPieces]
"""How a value is decoded: at once, or in pieces."""


class _Source:
    """The bytes of one request, and how many elements have been met in them."""

    __slots__ = ("buffer", "elements", "elements_max", "end", "since_yield")

    def __init__(self, buffer: memoryview, elements_max: int) -> None:
        self.buffer = buffer
        self.elements_max = elements_max
        self.end = len(buffer)
        self.elements = self.since_yield = 0

    def count(self, elements: int) -> None:
        """Notes the elements of one more array. Raises PeerError when there are too many."""
        self.elements += max(elements, 0)
        if self.elements > self.elements_max:
            raise PeerError(f"more than {self.elements_max} elements in one request: ask for less at a time")

    def bounded(self, at: int) -> int:
        """A position, checked. Raises PeerError when it is behind the end."""
        if at > self.end:
            raise PeerError("a message that ends in the middle of a field")
        return at


def read_in_pieces(key: int, version: int, buffer: memoryview, at: int, elements_max: int = ELEMENTS_MAX) -> Reading:
    """The object of a request whose body begins at `at`: the generator's value. It raises PeerError on bytes that are no such request."""
    decode = _decoder(key, version)
    try:
        message, _ = yield from decode(_Source(buffer.toreadonly(), elements_max), at)
    except Exception as error:
        raise PeerError(f"request of API {key} v{version} cannot be read: {error}") from error
    return message


@cache
def _decoder(key: int, version: int) -> _ReadInPieces:
    return _structure(entity_of(key, version, EntityType.request))


def _structure(entity: type[Any]) -> _ReadInPieces:
    """A structure, field by field."""
    flexible = bool(entity.__flexible__)
    fields = [(field.name, *_field(entity, field)) for field in dataclasses.fields(entity) if "tag" not in field.metadata]

    def decode(source: _Source, at: int) -> _Step:
        values = {}
        for name, read, in_pieces in fields:
            if read is not None:
                values[name], at = read(source, at)
            elif in_pieces is not None:
                values[name], at = yield from in_pieces(source, at)
        if flexible:
            at = source.bounded(walk_tagged_fields(source.buffer, at, source.end))
        return entity(**values), at

    return decode


def _field(entity: type[Any], field: "dataclasses.Field[Any]") -> _Field:
    nested = nested_entity(field)
    in_pieces = nested is not None and _has_arrays(nested)
    if not is_array(field):
        if nested is not None and in_pieces:
            return None, _structure(nested)
        return _at_once(field_walker(entity, field), get_field_reader(entity, field, False, False)), None
    flexible, nullable = bool(entity.__flexible__), is_nullable(field)
    if nested is None and fixed_item_bytes(field):
        return _numbers(fixed_item_bytes(field), get_field_reader(entity, field, False, False), flexible, nullable), None
    if nested is not None and in_pieces:
        return None, _array(None, _structure(nested), flexible, nullable)
    read = get_reader(str(field.metadata.get("kafka_type")), flexible, False) if nested is None else entity_reader(nested)
    return None, _array(_at_once(item_walker(entity, field), read), None, flexible, nullable)


def _has_arrays(entity: type[Any]) -> bool:
    fields = dataclasses.fields(entity)
    return any(is_array(field) or ((nested := nested_entity(field)) is not None and _has_arrays(nested)) for field in fields)


def _at_once(walk: Walk, read: Reader[Any]) -> _Read:
    def decode(source: _Source, at: int) -> tuple[Any, int]:
        behind = source.bounded(walk(source.buffer, at, source.end))
        return read(source.buffer, at)[0], behind

    return decode


def _numbers(item_bytes: int, read: Reader[Any], flexible: bool, nullable: bool) -> _Read:
    """An array of numbers: kio reads the longest allowed one in some milliseconds."""

    def decode(source: _Source, at: int) -> tuple[Any, int]:
        count, behind = array_count(source.buffer, at, source.end, flexible=flexible, nullable=nullable)
        source.count(count)
        behind = source.bounded(behind + max(count, 0) * item_bytes)
        return read(source.buffer, at)[0], behind

    return decode


def _array(read: _Read | None, in_pieces: _ReadInPieces | None, flexible: bool, nullable: bool) -> _ReadInPieces:
    def decode(source: _Source, at: int) -> _Step:
        count, at = array_count(source.buffer, at, source.end, flexible=flexible, nullable=nullable)
        if count < 0:
            return None, at
        source.count(count)
        items = []
        for _ in range(count):
            if read is not None:
                item, at = read(source, at)
            else:
                assert in_pieces is not None
                item, at = yield from in_pieces(source, at)
            items.append(item)
            source.since_yield += 1
            if source.since_yield >= PIECE:
                source.since_yield = 0
                yield
        return tuple(items), at

    return decode
