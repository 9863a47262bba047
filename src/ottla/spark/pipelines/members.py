"""Group records to who was in each group when, which partitions it owned when, and how often its clients came and went.

Of classic groups and of those of KIP-848. It never opens a source.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.spark.group_records import COMMIT_RECORDS, columns, offset_commits
from ottla.spark.membership.churn import member_churn
from ottla.spark.membership.intervals import last_commits, members, ownership, topic_names
from ottla.spark.membership.states import MEMBER_RECORD_TYPES, classic_states, consumer_states
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import MEMBER_CHURN, MEMBER_COMMITS, MEMBERS, OWNERSHIP

_RECORD: Final = ("partition", "offset", "timestamp", "group", "record_type", "is_tombstone", "generation", "protocol", "members", "record")
MEMBER_RECORDS: Final = columns(*_RECORD)
GROUP_RECORDS: Final = columns(*_RECORD, *COMMIT_RECORDS.fieldNames())


def member_records(group_records: DataFrame) -> DataFrame:
    """The records that say who is in a group."""
    found = group_records.where(F.col("record_type").isin(*MEMBER_RECORD_TYPES) & F.col("is_known"))
    return found.select(*MEMBER_RECORDS.fieldNames())


def member_commits(group_records: DataFrame) -> DataFrame:
    """When each group committed which partition."""
    commits = (
        offset_commits(group_records).where(~F.col("is_tombstone")).withColumn("committed_at", F.coalesce("commit_timestamp", "timestamp"))
    )
    return commits.drop("partition").withColumnRenamed("topic_partition", "partition").select(*MEMBER_COMMITS.fieldNames())


def overview(found: DataFrame) -> DataFrame:
    """One row per member in the order in which they joined, for a terminal."""
    return found.orderBy("group", "joined_at", "member_id").select(
        "group",
        F.coalesce("group_instance_id", "client_id").alias("client"),
        F.col("client_host").alias("host"),
        F.date_format("joined_at", "MM-dd HH:mm:ss").alias("joined"),
        F.date_format("left_at", "MM-dd HH:mm:ss").alias("left"),
        F.concat_ws("-", "first_generation", "last_generation").alias("gen"),
        "assignor",
    )


PIPELINE = Pipeline(
    inputs={"group_records": GROUP_RECORDS},
    outputs={"members": MEMBERS, "ownership": OWNERSHIP, "member_churn": MEMBER_CHURN},
    appended={"member_records": MEMBER_RECORDS, "member_commits": MEMBER_COMMITS},
    steps=(
        PipelineStep(member_records, ("group_records",), "member_records"),
        PipelineStep(member_commits, ("group_records",), "member_commits"),
        PipelineStep(classic_states, ("member_records",), "classic_states"),
        PipelineStep(consumer_states, ("member_records",), "consumer_states"),
        PipelineStep(topic_names, ("member_commits",), "topic_names"),
        PipelineStep(members, ("classic_states", "consumer_states"), "members"),
        PipelineStep(ownership, ("classic_states", "consumer_states", "topic_names", "members"), "ownership"),
        PipelineStep(last_commits, ("member_commits", "ownership"), "commits_of_members"),
        PipelineStep(member_churn, ("members", "commits_of_members"), "member_churn"),
    ),
    overview=overview,
    time="joined_at",
    shows_latest=True,
)
