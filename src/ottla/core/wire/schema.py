"""What kio's message classes state about their fields: arrays, nulls, nested structures, sizes."""

import dataclasses
from functools import cache
from typing import Any, TypeAlias, get_args

Entity: TypeAlias = Any
"""A message class of kio's, or the class of a structure in one: type[Any], but mypy does not hold that hashable."""

_FIXED_BYTES = {
    "bool": 1, "boolean": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "timedelta_i32": 4, "uint32": 4,
    "int64": 8, "timedelta_i64": 8, "datetime_i64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip


def untagged_fields(entity: Entity) -> "list[dataclasses.Field[Any]]":
    """The fields of a structure that are always there, in their order on the wire."""
    return [field for field in dataclasses.fields(entity) if "tag" not in field.metadata]


def kind_of(field: "dataclasses.Field[Any]") -> str:
    """kio's name for the primitive type of a field, or of the items of an array."""
    return str(field.metadata.get("kafka_type"))


def fixed_bytes(field: "dataclasses.Field[Any]") -> int:
    """The size of a field's values, or of the items of an array, where all have the same size; else 0."""
    return 0 if nested_entity(field) else _FIXED_BYTES.get(kind_of(field), 0)


def is_nullable(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field may be null."""
    return type(None) in get_args(field.type)


def is_array(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field is an array."""
    return any(getattr(part, "__origin__", None) is tuple for part in _parts(field.type))


def nested_entity(field: "dataclasses.Field[Any]") -> Entity | None:
    """The class of the structures in a field; None where there are none."""
    return next((part for part in _parts(field.type) if isinstance(part, type) and dataclasses.is_dataclass(part)), None)


@cache
def has_arrays(entity: Entity) -> bool:
    """Whether a structure, or one within it, has an array."""
    fields = untagged_fields(entity)
    return any(is_array(field) or ((nested := nested_entity(field)) is not None and has_arrays(nested)) for field in fields)


def _parts(annotation: Any) -> list[Any]:
    return [annotation, *(found for part in get_args(annotation) for found in _parts(part))]
