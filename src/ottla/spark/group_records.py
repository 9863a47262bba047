"""Steps on decoded group records that several pipelines share, and the columns that they need: sources build only those.

From DataFrame to DataFrame, row by row; it never opens a source. `schemas` explains the columns.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.schemas import GROUP_RECORDS, OFFSET_COMMITS

OFFSET_COMMIT_TYPES: Final = (0, 1)
GROUP_METADATA_TYPE: Final = 2


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
