"""Columns: the source's own, and selected ones."""

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from ottla.spark.options.source_options import SourceOptions, parse_options
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import GROUP_RECORDS, KAFKA, KAFKA_WITH_HEADERS
from ottla.spark.source.columns import checked_columns, source_schema


def _options(**more: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", **more})


def test_the_source_s_own():
    assert source_schema(_options()) == KAFKA
    assert source_schema(_options(includeHeaders="true")) == KAFKA_WITH_HEADERS
    assert source_schema(_options(decode="group_records")) == GROUP_RECORDS
    assert checked_columns(KAFKA_WITH_HEADERS, _options()) == tuple(KAFKA_WITH_HEADERS.fieldNames())
    assert checked_columns(GROUP_RECORDS, _options(decode="group_records")) == tuple(GROUP_RECORDS.fieldNames())


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("offset", IntegerType()), 'The column offset is bigint, not int: declare "offset bigint"\\.$'),
        (StructField("ofset", LongType()), "There is no column ofset; did you mean 'offset'. The columns are key binary, value binary"),
        (StructField("distance", LongType()), r"There is no column distance\. The columns are key binary, value binary"),
        (StructField("value", StringType()), 'declare "value binary", and cast it: .selectExpr..cast.value as string.'),
        (StructField("value", BinaryType(), nullable=False), "The column value cannot be declared NOT NULL"),
    ],
)
def test_columns_that_cannot_be(field: StructField, message: str):
    with pytest.raises(OptionError, match=message):
        checked_columns(StructType([field]), _options())
