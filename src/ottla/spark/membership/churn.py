"""Members to churn: for each client and hour how often it joined, left, came back, or was probably expired, and a score of flapping.

A client is the instance id of a static member, or else the client id and host.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.spark.schemas import MEMBER_CHURN

RETURNS_MAX: Final = 6
"""Returns in an hour that make the score 100: one in ten minutes."""

_CLIENT: Final = ("group", "group_instance_id", "client_id", "client_host")


def member_churn(members: DataFrame, commits_of_members: DataFrame) -> DataFrame:
    """One row per client and hour in which it joined or left, as the table `member_churn`."""
    known = members.join(commits_of_members, ["group", "member_id"], "left").withColumn("is_expired", _is_expired())
    client: list[Column | str] = [
        *_CLIENT[:2],
        *(F.when(F.col("group_instance_id").isNull(), F.col(name)).alias(name) for name in _CLIENT[2:]),
    ]
    stay = (F.unix_millis("left_at") - F.unix_millis("joined_at")).alias("stay_ms")
    joins = known.select(*client, F.col("joined_at").alias("at"), F.lit(True).alias("is_join"))
    leaves = known.where(F.col("left_at").isNotNull()).select(
        *client, F.col("left_at").alias("at"), F.lit(False).alias("is_join"), stay, "is_expired"
    )
    in_order = Window.partitionBy(*_CLIENT).orderBy("at", "is_join")
    absence = F.unix_millis("at") - F.unix_millis(F.lag("at").over(in_order))
    is_return = F.col("is_join") & ~F.lag("is_join").over(in_order) & (absence <= RETURN_WITHIN_MS)
    events = joins.unionByName(leaves, allowMissingColumns=True).withColumn("absence_ms", F.when(is_return, absence))
    by_hour = events.groupBy(*_CLIENT, F.date_trunc("hour", "at").alias("hour")).agg(
        F.count_if("is_join").alias("joins"),
        F.count_if(~F.col("is_join")).alias("leaves"),
        F.count("absence_ms").alias("returns"),
        F.count_if("is_expired").alias("expiries"),
        F.min("stay_ms").alias("shortest_stay_ms"),
        F.min("absence_ms").alias("shortest_absence_ms"),
    )
    score = F.least(F.lit(100), F.round(F.col("returns") * 100 / RETURNS_MAX)).alias("flapping_score")
    return by_hour.select("*", score).select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in MEMBER_CHURN.fields))


def _is_expired() -> Column:
    """A member that committed at least twice in each session timeout, and then not for a whole one before it was gone."""
    silence = F.unix_millis("left_at") - F.unix_millis("last_commit")
    usual = (F.unix_millis("last_commit") - F.unix_millis("first_commit")) / F.nullif(F.col("commit_times") - 1, F.lit(0))
    is_regular = usual * 2 <= F.col("session_timeout")
    return F.coalesce(is_regular & (silence >= F.col("session_timeout")), F.lit(False))
