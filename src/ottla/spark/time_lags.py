"""The lags in time of the pipeline `lag`: the rules of ottla.core.diagnosis.time_lag, which explains them, as columns.

Times are in milliseconds since 1970. A frame of a window never reaches to the end of its partition: there Spark's time is quadratic.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.core.diagnosis.time_lag import DRAIN_MS_MAX, EXTRAPOLATED_MS_MAX, RATE_WINDOW_MS, Quality

_PARTITION: Final = ("topic", "partition")
_KEY: Final = ("group", *_PARTITION)
NEXT, READ, LAST = "next", "read", "last"
"""The records whose times are needed: the one to be read next, the last one that was committed, the last one of the partition."""


def since_truncation(ends: DataFrame) -> DataFrame:
    """Measured ends since each log last became shorter."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("measured_at", "end_offset")
    fell = F.when(F.col("end_offset") < F.lag("end_offset").over(in_order), F.col("measured_at"))
    fallen = ends.withColumn("fell_at", fell).withColumn("fell_at", F.max("fell_at").over(Window.partitionBy(*_PARTITION)))
    return fallen.where(F.col("fell_at").isNull() | (F.col("measured_at") >= F.col("fell_at"))).drop("fell_at")


def with_record_times(lags: DataFrame, ends: DataFrame, records: DataFrame) -> DataFrame:
    """Rows of a lag in messages with the age of the next record and the freshness."""
    wanted = F.array(
        F.struct(F.lit(NEXT).alias("name"), F.greatest("committed_offset", "start_offset").alias("offset")),
        F.struct(F.lit(READ).alias("name"), F.try_subtract("committed_offset", F.lit(1)).alias("offset")),
        F.struct(F.lit(LAST).alias("name"), (F.col("end_offset") - 1).alias("offset")),
    )
    lookups = lags.select(*_KEY, F.explode(wanted).alias("wanted")).select(*_KEY, "wanted.*")
    found = times_of_records(lookups, ends, records)
    times = F.struct("estimate", "first", "last", "has_records")
    of = {name: F.max_by(times, F.when(F.col("name") == name, 1)).alias(f"of_{name}") for name in (NEXT, READ, LAST)}
    by_name = found.groupBy(*_KEY).agg(*of.values())
    joined = lags.join(by_name, [*_KEY])
    return joined.select(*lags.columns, *_next_record_age(), *_freshness())


def times_of_records(lookups: DataFrame, ends: DataFrame, records: DataFrame) -> DataFrame:
    """For each offset an estimate of its record's time, the first record from there on, and the last one up to there."""
    points = ends.groupBy(*_PARTITION, F.col("end_offset").alias("offset")).agg(
        F.min(F.unix_millis("measured_at")).alias("reached"), F.max(F.unix_millis("measured_at")).alias("left")
    )
    point = F.struct(F.col("offset").alias("end"), "reached", "left")
    record = F.struct("offset", F.unix_millis("timestamp").alias("at_ms"))
    known = points.select(*_PARTITION, "offset", point.alias("point")).unionByName(
        records.select(*_PARTITION, "offset", record.alias("record")), allowMissingColumns=True
    )
    timeline = known.unionByName(lookups, allowMissingColumns=True).withColumn("is_lookup", F.col("name").isNotNull())
    of_partition = Window.partitionBy(*_PARTITION)
    before = of_partition.orderBy("offset", "is_lookup").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    after = of_partition.orderBy(F.desc("offset"), F.desc("is_lookup")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    seen = timeline.select(
        *_KEY,
        "name",
        "offset",
        F.last("point", ignorenulls=True).over(before).alias("previous"),
        F.last("point", ignorenulls=True).over(after).alias("following"),
        F.max("point").over(of_partition).alias("newest"),
        F.last("record", ignorenulls=True).over(before).alias("last"),
        F.last("record", ignorenulls=True).over(after).alias("first"),
        (F.count("record").over(of_partition) > 0).alias("has_records"),
    ).where(F.col("name").isNotNull())
    is_there = F.col("last.offset") == F.col("offset")
    return seen.withColumn("first", F.when(is_there, F.col("last")).otherwise(F.col("first"))).withColumn("estimate", _estimate())


def _estimate() -> Column:
    """The time of the record at `offset`: between the points around it, or before the first point."""
    previous, following, newest = F.col("previous"), F.col("following"), F.col("newest")
    records = following["end"] - F.col("offset") - 1
    between = F.floor(records / (following["end"] - previous["end"]) * (following["reached"] - previous["left"]))
    earlier = F.floor(records / (newest["end"] - following["end"]) * (newest["reached"] - following["reached"]))
    has_rate = (newest["end"] > following["end"]) & (newest["reached"] > following["reached"])
    ms = F.when(previous.isNotNull(), following["reached"] - between).when(
        has_rate, following["reached"] - F.least(earlier, F.lit(EXTRAPOLATED_MS_MAX))
    )
    quality = (
        F.when(following.isNull(), Quality.UNKNOWN)
        .when(previous.isNotNull(), Quality.INTERPOLATED)
        .when(has_rate, Quality.CAPPED)
        .otherwise(Quality.UNKNOWN)
    )
    return F.struct(F.when(following.isNotNull(), ms).alias("ms"), quality.alias("quality"))


def _next_record_age() -> tuple[Column, Column]:
    now_ms = F.unix_millis("measured_at")
    first = F.when(F.col("of_next.first.offset") < F.col("end_offset"), F.col("of_next.first.at_ms"))
    waits = F.greatest("committed_offset", "start_offset") < F.col("end_offset")
    is_known = F.col("of_next.has_records")
    is_none = ~waits | (is_known & first.isNull())
    ms = F.when(is_none, 0).otherwise(F.greatest(F.lit(0), now_ms - F.when(is_known, first).otherwise(F.col("of_next.estimate.ms"))))
    quality = F.when(is_none | is_known, Quality.EXACT).otherwise(F.col("of_next.estimate.quality"))
    return _named("next_record_age", F.when(_is_judged() & (quality != Quality.UNKNOWN), ms), quality)


def _freshness() -> tuple[Column, Column]:
    read, last = F.col("of_read.last.at_ms"), F.col("of_last.last.at_ms")
    is_exact = read.isNotNull() & last.isNotNull()
    estimates = F.array("of_read.estimate.quality", "of_last.estimate.quality")
    worst = [F.when(F.array_contains(estimates, each), each) for each in (Quality.UNKNOWN, Quality.CAPPED)]
    is_none = F.col("committed_offset") == F.col("end_offset")
    estimate = F.col("of_last.estimate.ms") - F.col("of_read.estimate.ms")
    quality = (
        F.when(is_none, Quality.EXACT)
        .when(F.col("committed_offset") == 0, Quality.UNKNOWN)
        .when(is_exact, Quality.EXACT)
        .otherwise(F.coalesce(*worst, F.lit(Quality.INTERPOLATED)))
    )
    between = F.when(is_none, 0).when(is_exact, last - read).otherwise(estimate)
    return _named("freshness", F.when(_is_judged() & (quality != Quality.UNKNOWN), F.greatest(F.lit(0), between)), quality)


def with_drain_times(rows: DataFrame, lags: DataFrame, ends: DataFrame, commits: DataFrame) -> DataFrame:
    """Rows with the rates of commits and of the log, and the time until the lag is gone if they stay.

    `rows` are those of `lags`, with more columns: the rates are looked up by `lags`, which cost less to compute once more.
    """
    committed = commits.where(~F.col("is_tombstone")).select(
        "group", "topic", F.col("topic_partition").alias("partition"), F.coalesce("commit_timestamp", "timestamp"), "committed_offset"
    )
    consumed = _rates(committed.toDF(*_KEY, "at", "position"), lags.select(*_KEY, "measured_at"), _KEY, "consumed_per_s")
    written = ends.select(*_PARTITION, F.col("measured_at").alias("at"), F.col("end_offset").alias("position"))
    produced = _rates(written, lags.select(*_PARTITION, "measured_at").distinct(), _PARTITION, "produced_per_s")
    joined = rows.join(consumed, [*_KEY], "left").join(produced, [*_PARTITION], "left")
    gain = F.col("consumed_per_s") - F.col("produced_per_s")
    ms = (F.col("end_offset") - F.col("committed_offset")) / gain * 1000
    drain_ms = F.when(F.col("committed_offset") == F.col("end_offset"), 0).when(
        gain > 0, F.when(ms > DRAIN_MS_MAX, DRAIN_MS_MAX).otherwise(F.bround(ms))
    )
    quality = (
        F.when(F.col("committed_offset") == F.col("end_offset"), Quality.EXACT)
        .when(gain > 0, F.when(ms > DRAIN_MS_MAX, Quality.CAPPED).otherwise(Quality.INTERPOLATED))
        .otherwise(Quality.UNKNOWN)
    )
    return joined.select("*", *_named("drain", F.when(_is_judged(), drain_ms), quality))


def _rates(points: DataFrame, until: DataFrame, key: tuple[str, ...], name: str) -> DataFrame:
    """Offsets a second from the first point of the last RATE_WINDOW_MS until `measured_at`."""
    at_ms, now_ms = F.unix_millis("at"), F.unix_millis("measured_at")
    recent = points.join(until, [*key]).where((at_ms <= now_ms) & (at_ms >= now_ms - RATE_WINDOW_MS))
    point = F.struct(at_ms.alias("at_ms"), "position")
    found = recent.groupBy(*key).agg(
        F.min(point).alias("first"), F.max(point).alias("last"), F.count("*").alias("points"), F.max(now_ms).alias("now_ms")
    )
    ms = F.col("now_ms") - F.col("first.at_ms")
    rate = F.when((F.col("points") > 1) & (ms > 0), (F.col("last.position") - F.col("first.position")) * 1000 / ms)
    return found.select(*key, rate.alias(name))


def _is_judged() -> Column:
    """Of a commit beyond the end nothing is known: the topic was truncated or re-created."""
    return F.col("committed_offset") <= F.col("end_offset")


def _named(name: str, ms: Column, quality: Column) -> tuple[Column, Column]:
    judged = F.when(_is_judged(), quality).otherwise(Quality.UNKNOWN)
    return ms.cast("long").alias(f"{name}_ms"), judged.alias(f"{name}_quality")
