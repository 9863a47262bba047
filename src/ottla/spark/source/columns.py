"""The columns of a query: all of the source's, or those that `.schema(...)` names. Pure."""

from typing import Any

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from ottla.spark.options.source_options import GROUP_RECORDS, SourceOptions
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import GROUP_RECORDS as GROUP_RECORDS_SCHEMA
from ottla.spark.schemas import KAFKA, KAFKA_WITH_HEADERS
from ottla.text import did_you_mean


def source_schema(options: SourceOptions) -> StructType:
    """The columns where the user names none."""
    if options.decode == GROUP_RECORDS:
        return GROUP_RECORDS_SCHEMA
    return KAFKA_WITH_HEADERS if options.include_headers else KAFKA


def checked_columns(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """The names of the columns of `schema`. Raises OptionError for one that is not the source's, by name or type."""
    whole = GROUP_RECORDS_SCHEMA if options.decode == GROUP_RECORDS else KAFKA_WITH_HEADERS
    types: dict[str, Any] = {field.name: field.dataType for field in whole.fields}
    for field in schema.fields:
        if not field.nullable:
            raise OptionError(f"The column {field.name} cannot be declared NOT NULL: Spark would believe it, and no record is checked.")
        if field.name not in types:
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
            raise OptionError(f"There is no column {field.name}{did_you_mean(field.name, types) or '.'} The columns are {columns}.")
        if types[field.name] != field.dataType:
            raise OptionError(_wrong_type(field.name, types[field.name], field.dataType))
    return tuple(schema.fieldNames())


def _wrong_type(name: str, right: DataType, given: DataType) -> str:
    message = f'The column {name} is {right.simpleString()}, not {given.simpleString()}: declare "{name} {right.simpleString()}"'
    if isinstance(right, BinaryType) and isinstance(given, StringType):
        return f'{message}, and cast it: .selectExpr("cast({name} as string)").'
    return f"{message}."
