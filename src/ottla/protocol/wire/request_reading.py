"""Large requests, decoded in pieces: a generator that yields after every few elements and ends with kio's object.

A small request is decoded at once (`messages.request_decoder`). Here, too, every length is checked before anything is built
(`bounds`), and kio reads the fields. The elements of all arrays are bounded: a frame full of empty strings must not become
gigabytes of objects.
"""

import dataclasses
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial._parse import get_field_reader, get_reader  # kio has no public name for the reader of one field
from kio.serial.readers import Reader

from ottla.protocol.errors import PeerError, RequestTooLarge
from ottla.protocol.wire.bounds import (
    Entity,
    array_length,
    check_in_pieces,
    fixed_bytes,
    has_arrays,
    is_array,
    is_nullable,
    kind_of,
    nested_entity,
    untagged_fields,
)
from ottla.protocol.wire.messages import request_class
from ottla.protocol.wire.primitives import skip_tagged_fields

AT_ONCE_BYTES_MAX: Final = 8 * 1024
"""A smaller request is decoded at once: its elements, some thousand at most, take a few milliseconds."""
ELEMENTS_MAX: Final = 100_000
"""Elements of all arrays of one request together: names, topics, partitions, numbers. Each takes up to 400 bytes when it is decoded."""
PIECE: Final = 256
"""So many elements are decoded before other requests continue: about 0.2 ms."""

Reading = Generator[None, None, Any]
_Step = Generator[None, None, tuple[Any, int]]
_ReadInPieces = Callable[["_Source", int], _Step]
"""From a position to a value and the position behind it. The bytes are checked already."""
_Field = tuple[str, Reader[Any], None] | tuple[str, None, _ReadInPieces]
"""A field's name, and how it is decoded: at once by kio, or in pieces."""


class _Source:
    """The bytes of one request, and the elements that were decoded since other requests had their time."""

    __slots__ = ("buffer", "since_yield")

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.since_yield = 0


def read_in_pieces(key: int, version: int, buffer: memoryview, at: int, elements_max: int = ELEMENTS_MAX) -> Reading:
    """The object of a request whose body begins at `at`: the generator's value. It raises PeerError on bytes that are no such request."""
    entity = request_class(key, version)
    try:
        yield from check_in_pieces(entity, buffer, at, elements_max)
        message, _ = yield from _structure(entity)(_Source(buffer.toreadonly()), at)
    except RequestTooLarge as error:
        raise RequestTooLarge(f"{entity.__name__} v{version}: {error}") from error
    except Exception as error:
        raise PeerError(f"{entity.__name__} v{version} cannot be read: {error}") from error
    return message


@cache
def _structure(entity: Entity) -> _ReadInPieces:
    """A structure, field by field."""
    flexible = bool(entity.__flexible__)
    fields = [_field(entity, field) for field in untagged_fields(entity)]

    def decode(source: _Source, at: int) -> _Step:
        values = {}
        for name, read, in_pieces in fields:
            if read is not None:
                values[name], size = read(source.buffer, at)
                at += size
            elif in_pieces is not None:
                values[name], at = yield from in_pieces(source, at)
        if flexible:
            at = skip_tagged_fields(source.buffer, at, len(source.buffer))
        return entity(**values), at

    return decode


def _field(entity: Entity, field: "dataclasses.Field[Any]") -> _Field:
    nested, flexible = nested_entity(field), bool(entity.__flexible__)
    is_deep = nested is not None and has_arrays(nested)
    if nested is not None and is_deep and (is_array(field) or not is_nullable(field)):
        decode = _structure(nested)
        return field.name, None, _array(None, decode, flexible) if is_array(field) else decode
    if not is_array(field) or fixed_bytes(field):  # a structure that may be null too: none has arrays in a request that is served
        return field.name, get_field_reader(entity, field, False, False), None
    read = get_reader(kind_of(field), flexible, False) if nested is None else entity_reader(nested)
    return field.name, None, _array(read, None, flexible)


def _array(read: Reader[Any] | None, in_pieces: _ReadInPieces | None, flexible: bool) -> _ReadInPieces:
    def decode(source: _Source, at: int) -> _Step:
        count, at = array_length(source.buffer, at, flexible=flexible)
        if count < 0:
            return None, at
        items = []
        for _ in range(count):
            if read is not None:
                item, size = read(source.buffer, at)
                at += size
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
