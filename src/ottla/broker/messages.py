"""Kafka's messages at the door: request bytes → kio's objects, version-free answers → bytes.

Message classes are loaded one API version at a time, when it is first asked for: there are over a thousand. An answer is written as nested
dicts with the fields of all versions; what a version does not have is left out, and a field that it needs and does not get is our bug.
"""

import dataclasses
import datetime
import io
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, get_args, get_origin

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.core.bounds import walker
from ottla.core.errors import PeerError
from ottla.core.wire import Buffer

API_VERSIONS = 18

Decoder = Callable[[Buffer, int], Any]
Encoder = Callable[[Mapping[str, Any]], bytes]


def versions_of(key: int) -> range:
    """The versions of an API that kio can express."""
    versions = schema_name_map[api_key_map[key]]
    return range(min(versions), max(versions) + 1)


def entity_of(key: int, version: int, kind: EntityType) -> type[Any]:
    module: ModuleType = load_payload_module(key, version, kind)  # type: ignore[arg-type]
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "__type__", None) is kind:
            return value
    raise AssertionError(f"no {kind} for API {key} v{version}")


@cache
def is_flexible(key: int, version: int) -> bool:
    """Whether this version has tagged fields (KIP-482), in its header too."""
    return bool(entity_of(key, version, EntityType.request).__flexible__)


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """A function from (buffer, position) to the request's object. It raises PeerError on bytes that are no such request."""
    entity = entity_of(key, version, EntityType.request)
    read = entity_reader(entity)
    walk = walker(entity)

    def decode(buffer: Buffer, at: int) -> Any:
        try:
            walk(buffer, at, len(buffer))
            return read(memoryview(buffer).toreadonly(), at)[0]  # kio takes no writable memory
        except Exception as error:
            raise PeerError(f"request of API {key} v{version} cannot be read: {error}") from error

    return decode


@cache
def response_encoder(key: int, version: int) -> Encoder:
    """A function from nested dicts to the body of an answer."""
    entity = entity_of(key, version, EntityType.response)
    write = entity_writer(entity)
    fit = fitter(entity)

    def encode(values: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        write(out, fit(values))
        return out.getvalue()

    return encode


def _timedelta(milliseconds: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds)


def _error_code(code: int) -> KioErrorCode:
    return KioErrorCode(int(code))


_FITTERS: dict[type[Any], Callable[[Mapping[str, Any]], Any]] = {}


def fitter(entity: type[Any]) -> Callable[[Mapping[str, Any]], Any]:
    """A function from a dict to an object of `entity`, made once per class: it converts what kio wants converted, and drops the rest."""
    known = _FITTERS.get(entity)
    if known is not None:
        return known
    converters: list[tuple[str, Callable[[Any], Any] | None, bool]] = []
    for field in dataclasses.fields(entity):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        converters.append((field.name, _converter(field), required))

    def fit(values: Mapping[str, Any]) -> Any:
        arguments = {}
        for name, convert, required in converters:
            if name in values:
                value = values[name]
                arguments[name] = value if convert is None or value is None else convert(value)
            elif required:
                raise AssertionError(f"{entity.__module__}: no value for {name}")
        return entity(**arguments)

    _FITTERS[entity] = fit
    return fit


def _converter(field: "dataclasses.Field[Any]") -> Callable[[Any], Any] | None:
    kind = field.metadata.get("kafka_type")
    if kind in ("timedelta_i32", "timedelta_i64"):
        return _timedelta
    if kind == "error_code":
        return _error_code
    nested = _nested_entity(field.type)
    if nested is None:
        return tuple if get_origin(field.type) is tuple else None
    fit = fitter(nested)
    if get_origin(field.type) is tuple or any(get_origin(part) is tuple for part in get_args(field.type)):
        return lambda items: tuple(fit(item) for item in items)
    return fit


def _nested_entity(annotation: Any) -> type[Any] | None:
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation
    for part in get_args(annotation):
        found = _nested_entity(part)
        if found is not None:
            return found
    return None
