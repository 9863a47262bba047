"""What a pipeline computed, in short, for a terminal: the latest rows of a history, or the first ones of a list by size."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.spark.pipelines import Pipeline
from ottla.spark.runner.text_table import table_text


def overview_text(pipeline: Pipeline, table: DataFrame, *, width: int, limit: int, since_ms: int | None) -> str:
    """The overview of a pipeline's first output, at most `limit` rows, of the times from `since_ms` on (milliseconds since 1970)."""
    if since_ms is not None:
        assert pipeline.time is not None
        table = table.where(F.col(pipeline.time) >= F.timestamp_millis(F.lit(since_ms)))
    if not pipeline.shows_latest:
        return table_text(pipeline.overview(table), width=width, rows_max=limit)
    assert pipeline.time is not None
    count = table.count()
    shown = pipeline.overview(table.orderBy(F.desc_nulls_last(pipeline.time)).limit(limit))
    more = f"(only the latest {limit} of {count} rows)\n" if count > limit else ""
    return table_text(shown, width=width, rows_max=limit) + more
