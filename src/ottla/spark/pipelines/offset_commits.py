"""Group records to one row per commit or tombstone, and to a count of every kind of record, supported or not.

It does not deduplicate: an offset that was committed twice has two rows. It never opens a source.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.spark.group_records import COMMIT_RECORDS, OFFSET_COMMIT_TYPES, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import GROUP_RECORD_COUNTS, OFFSET_COMMITS

KIND: Final = ("partition", "record_type", "value_version", "is_known", "is_tombstone")
OFFSETS: Final = (("offset", "count"), ("offset", "min"), ("offset", "max"))
BATCHES_COUNTED: Final = 64
"""Batches that are counted at once: for each alone it would take half as long as their decoding."""


def count_records(group_records: DataFrame) -> DataFrame:
    """How many records of each type, version and partition there are; unsupported record types are counted too."""
    counted = group_records.groupBy(*KIND).agg(
        F.count("*").alias("records"), F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset")
    )
    return counted.select(*GROUP_RECORD_COUNTS.fieldNames())


def in_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The steps above on the batches of one task."""
    types = pa.array(OFFSET_COMMIT_TYPES, pa.int32())
    counts: list[pa.Table] = []
    kinds: list[pa.RecordBatch] = []
    for batch in batches:
        is_commit = pc.and_kleene(pc.is_in(batch["record_type"], types), batch["is_known"])
        commits = batch if pc.all(is_commit, skip_nulls=False).as_py() else batch.filter(is_commit)
        yield "offset_commits", commits.select(OFFSET_COMMITS.fieldNames())
        kinds.append(batch.select([*KIND, "offset"]))
        if len(kinds) == BATCHES_COUNTED:
            counts.append(_counted(pa.Table.from_batches(kinds), *OFFSETS))
            kinds = []
    if kinds:
        counts.append(_counted(pa.Table.from_batches(kinds), *OFFSETS))
    if counts:
        total = _counted(pa.concat_tables(counts), ("records", "sum"), ("first_offset", "min"), ("last_offset", "max"))
        yield "group_record_counts", total.combine_chunks().to_batches()[0]


def _counted(rows: pa.Table, *figures: tuple[str, str]) -> pa.Table:
    """Rows grouped by their kind, with the figures of GROUP_RECORD_COUNTS."""
    found = rows.group_by(list(KIND), use_threads=False).aggregate(list(figures))
    named = found.select([*KIND, *(f"{column}_{how}" for column, how in figures)])
    return named.rename_columns(GROUP_RECORD_COUNTS.fieldNames())


def overview(commits: DataFrame) -> DataFrame:
    """One row per group and topic: its partitions, commits and tombstones, with times."""
    by_topic = commits.groupBy("group", "topic").agg(
        F.count_distinct("topic_partition").alias("partitions"),
        F.count_if(~F.col("is_tombstone")).alias("commits"),
        F.count_if("is_tombstone").alias("tombstones"),
        F.date_format(F.min("commit_timestamp"), "MM-dd HH:mm:ss").alias("first"),
        F.date_format(F.max("commit_timestamp"), "MM-dd HH:mm:ss").alias("last"),
    )
    return by_topic.orderBy("group", "topic")


PIPELINE = Pipeline(
    inputs={"group_records": COMMIT_RECORDS},
    outputs={"offset_commits": OFFSET_COMMITS, "group_record_counts": GROUP_RECORD_COUNTS},
    appended={"offset_commits": OFFSET_COMMITS, "group_record_counts": GROUP_RECORD_COUNTS},
    steps=(
        PipelineStep(offset_commits, ("group_records",), "offset_commits"),
        PipelineStep(count_records, ("group_records",), "group_record_counts"),
    ),
    overview=overview,
    time="commit_timestamp",
    in_arrow=in_arrow,
)
