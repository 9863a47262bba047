"""Kafka's messages as kio's objects: request and response, bytes to object and object to bytes, for the broker and for clients.

Message classes are loaded one API version at a time, when one is first needed: there are over a thousand. A message can also be given as
nested mappings with the fields of all versions; what a version lacks is left out.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.bounds import Entity, is_array, nested_entity, walker
from ottla.protocol.wire.primitives import Buffer

Decoder = Callable[[Buffer, int], Any]
Encoder = Callable[[Mapping[str, Any]], bytes]
Fitter = Callable[[Mapping[str, Any]], Any]

_EMPTY: Final = ((bool, False), (int, 0), (float, 0.0), (str, ""), (bytes, b""), (datetime.timedelta, datetime.timedelta()))


def versions_of(key: int) -> range:
    """The versions of an API that kio can express."""
    versions = schema_name_map[api_key_map[key]]
    return range(min(versions), max(versions) + 1)


def request_class(key: int, version: int) -> Entity:
    """kio's class for a request."""
    return load_request_schema(key, version)


def response_class(key: int, version: int) -> Entity:
    """kio's class for a response."""
    return load_response_schema(key, version)


@cache
def is_flexible(key: int, version: int) -> bool:
    """Whether this version has tagged fields (KIP-482), in its header too."""
    return bool(request_class(key, version).__flexible__)


@cache
def decoder(entity: Entity) -> Decoder:
    """A function from (buffer, position) to a message. It raises PeerError on bytes that are no such message."""
    walk = walker(entity)
    read = entity_reader(entity)

    def decode(buffer: Buffer, at: int) -> Any:
        try:
            walk(buffer, at, len(buffer))
            return read(memoryview(buffer).toreadonly(), at)[0]  # kio takes no writable memory
        except Exception as error:
            raise PeerError(f"{entity.__name__} v{entity.__version__} cannot be read: {error}") from error

    return decode


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """The decoder of a request."""
    return decoder(request_class(key, version))


class _Output:
    """What kio writes to."""

    __slots__ = ("data", "write")

    def __init__(self) -> None:
        self.data = bytearray()
        self.write = self.data.extend


def encode(message: Any) -> bytes:
    """The bytes of a message, without a header."""
    out: Any = _Output()
    entity_writer(type(message))(out, message)
    return bytes(out.data)


@cache
def response_encoder(key: int, version: int) -> Encoder:
    """A function from nested mappings to the bytes of a response."""
    fit = fitter(response_class(key, version))
    return lambda values: encode(fit(values))


@cache
def fitter(entity: Entity, is_lenient: bool = False) -> Fitter:
    """A function from nested mappings to a message. It converts what kio has types of its own for, and drops what the version lacks.

    A required field without a value is our bug; with `is_lenient` it becomes 0, "", empty or null.
    """
    converters: list[tuple[str, Callable[[Any], Any] | None, Callable[[], Any] | None]] = []
    for field in dataclasses.fields(entity):
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        converters.append((field.name, _converter(field, is_lenient), _absent(field, is_lenient) if is_required else None))

    def fit(values: Mapping[str, Any]) -> Any:
        arguments = {}
        for name, convert, absent in converters:
            if name in values:
                value = values[name]
                arguments[name] = value if convert is None or value is None else convert(value)
            elif absent is not None:
                arguments[name] = absent()
        return entity(**arguments)

    return fit


def _timedelta(milliseconds: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds)


def _datetime(milliseconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)


def _error_code(code: int) -> KioErrorCode:
    return KioErrorCode(int(code))


def _converter(field: "dataclasses.Field[Any]", is_lenient: bool) -> Callable[[Any], Any] | None:
    kind = field.metadata.get("kafka_type")
    if kind == "datetime_i64":
        return _datetime
    if kind in ("timedelta_i32", "timedelta_i64"):
        return _timedelta
    if kind == "error_code":
        return _error_code
    nested = nested_entity(field)
    if nested is None:
        return tuple if is_array(field) else None
    fit = fitter(nested, is_lenient)
    return (lambda items: tuple(map(fit, items))) if is_array(field) else fit


def _absent(field: "dataclasses.Field[Any]", is_lenient: bool) -> Callable[[], Any]:
    """What a required field becomes that has no value."""

    def refuse() -> Any:
        raise AssertionError(f"no value for {field.name}")

    if not is_lenient:
        return refuse
    if type(None) in get_args(field.type):
        return lambda: None
    if get_origin(field.type) is tuple:
        return tuple
    nested = nested_entity(field)
    if nested is not None:
        return lambda: fitter(nested, True)({})
    if field.metadata.get("kafka_type") == "error_code":
        return lambda: KioErrorCode.none
    kind: Any = field.type
    return lambda: next(value for wanted, value in _EMPTY if issubclass(kind, wanted))
