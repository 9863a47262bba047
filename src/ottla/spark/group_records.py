"""Steps that several pipelines share: decoded group records with the columns that are needed, and plain Python once per group.

From DataFrame to DataFrame; it never opens a source, and sources build only the columns that are named here. `schemas` explains them.

`apply_by_group` is for decisions that are written once, in ottla.history: the rows of a group in their order go to a function, which
returns rows of a table. A group's rows are in memory at once, a worker's groups are not. One pass over sorted rows costs far less than
Spark's own calls per group, of which each is a batch of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.spark.schemas import GROUP_RECORDS, OFFSET_COMMITS

OFFSET_COMMIT_TYPES: Final = (0, 1)
GROUP_METADATA_TYPE: Final = 2

GROUP: Final = "group"
ROWS_MAX: Final = 4_000
"""Rows of a batch that goes back to Spark, about: a group's rows stay together."""

Row = Mapping[str, Any]
Make = Callable[[str, list[Row]], Iterable[Row]]


def columns(*names: str) -> StructType:
    """Some columns of GROUP_RECORDS, in its order."""
    chosen = [field for field in GROUP_RECORDS.fields if field.name in names]
    assert len(chosen) == len(set(names)), f"not all of {names} are columns of group records"
    return StructType(chosen)


COMMIT_RECORDS: Final = columns(*OFFSET_COMMITS.fieldNames(), "is_known")
"""The columns that `offset_commits` needs."""


def offset_commits(group_records: DataFrame) -> DataFrame:
    """One row per commit, and one per tombstone of a commit, without values of unknown versions (the pipelines count them)."""
    is_commit = F.col("record_type").isin(*OFFSET_COMMIT_TYPES) & F.col("is_known")
    return group_records.where(is_commit).select(*OFFSET_COMMITS.fieldNames())


def apply_by_group(rows: DataFrame, make: Make, schema: StructType, *order: str) -> DataFrame:
    """The rows that `make` returns for each group; it gets the group's rows sorted by `order`, and must be importable by name."""
    in_order = rows.repartition(GROUP).sortWithinPartitions(GROUP, *order)
    return in_order.mapInArrow(partial(make_batches, make=make, schema=to_arrow_schema(schema, timezone="UTC")), schema)


def make_batches(batches: Iterable[pa.RecordBatch], make: Make, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Sorted batches of rows to batches of made rows; in a Python worker. A group may begin in one batch and end in another."""
    made: list[Row] = []
    for group, rows in groupby((row for batch in batches for row in batch.to_pylist()), key=itemgetter(GROUP)):
        made += make(group, list(rows))
        if len(made) >= ROWS_MAX:
            yield pa.RecordBatch.from_pylist(made, schema=schema)
            made = []
    yield pa.RecordBatch.from_pylist(made, schema=schema)
