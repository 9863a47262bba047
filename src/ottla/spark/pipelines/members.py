"""Group records to who was in each group when, which partitions it owned when, and how often its clients came and went.

Of classic groups and of those of KIP-848. It never opens a source, and drops no row because a field is missing.

Records become states: at each record the members of a classic group, or one member of a KIP-848 group, each with its partitions. A state
holds until `until`: the group's next record (classic), or the member's (KIP-848); null if there is none yet. `number` counts those
records, so that a gap in the numbers of a member's states shows where it was not there.

States become intervals [from, to): `to` is when the record was stored that does not have it any more, null while it lasts. Members become
churn: for each client (the instance id of a static member, or else client id and host) and hour how often it joined, left, came back, or
was probably expired, and a score of flapping.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.spark.group_records import COMMIT_RECORDS, GROUP_METADATA_TYPE, columns, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import MEMBER_CHURN, MEMBER_COMMITS, MEMBERS, OWNERSHIP

CLASSIC, CONSUMER = "classic", "consumer"
MEMBER_METADATA_TYPE: Final = 5
CURRENT_ASSIGNMENT_TYPE: Final = 8
MEMBER_RECORD_TYPES: Final = (GROUP_METADATA_TYPE, MEMBER_METADATA_TYPE, CURRENT_ASSIGNMENT_TYPE)

_PARTITIONS: Final = "array<struct<topic: string, topic_id: string, partition: int>>"
_IDS: Final = "array<struct<topicId: string, partitions: array<int>>>"
_METADATA: Final = """instanceId string, clientId string, clientHost string, rebalanceTimeoutMs int, serverAssignor string,
    subscribedTopicNames array<string>, subscribedTopicRegex string, classicMemberMetadata struct<sessionTimeoutMs: int>"""
_ASSIGNMENT: Final = f"memberEpoch int, assignedPartitions {_IDS}, partitionsPendingRevocation {_IDS}"
_STATE_FIELDS: Final = "struct<key: struct<data: struct<memberId: string>>, value: struct<data: struct<{fields}>>>"

_MEMBER: Final = ("group", "group_type", "member_id")
_ATTRIBUTES: Final = (
    *("group_instance_id", "client_id", "client_host", "session_timeout", "rebalance_timeout"),
    *("assignor", "subscribed_topics", "subscribed_regex"),
)

RETURNS_MAX: Final = 6
"""Returns in an hour that make the score 100: one in ten minutes."""

_CLIENT: Final = ("group", "group_instance_id", "client_id", "client_host")

_RECORD: Final = ("partition", "offset", "timestamp", "group", "record_type", "is_tombstone", "generation", "protocol", "members", "record")
MEMBER_RECORDS: Final = columns(*_RECORD)
GROUP_RECORDS: Final = columns(*_RECORD, *COMMIT_RECORDS.fieldNames())


def classic_states(records: DataFrame) -> DataFrame:
    """A row per member and record of a classic group, with what the record says of it."""
    in_order = Window.partitionBy("partition", "group").orderBy("offset")
    numbered = records.where(F.col("record_type") == GROUP_METADATA_TYPE).select(
        "group",
        "offset",
        "generation",
        "protocol",
        F.col("timestamp").alias("at"),
        F.lead("timestamp").over(in_order).alias("until"),
        F.row_number().over(in_order).alias("number"),
        "members",
    )
    # Not in the same select as the windows: those would be over the members.
    return numbered.withColumn("member", F.explode("members")).select(
        "group",
        F.lit(CLASSIC).alias("group_type"),
        "member.member_id",
        "offset",
        "at",
        "until",
        "number",
        "generation",
        F.col("member.group_instance_id").alias("group_instance_id"),
        F.col("member.client_id").alias("client_id"),
        F.col("member.client_host").alias("client_host"),
        F.col("member.session_timeout").alias("session_timeout"),
        F.col("member.rebalance_timeout").alias("rebalance_timeout"),
        F.col("protocol").alias("assignor"),
        F.col("member.subscribed_topics").alias("subscribed_topics"),
        F.lit(None).cast("string").alias("subscribed_regex"),
        _by_name(F.col("member.assignment")).alias("partitions"),
    )


def consumer_states(records: DataFrame) -> DataFrame:
    """A row per record of a KIP-848 member while it is in the group; `partitions` is null where the record does not say."""
    of_members = records.where(F.col("record_type").isin(MEMBER_METADATA_TYPE, CURRENT_ASSIGNMENT_TYPE))
    has_metadata = F.col("record_type") == MEMBER_METADATA_TYPE
    parsed = of_members.select(
        "*",
        F.from_json("record", _STATE_FIELDS.format(fields=_METADATA))["key"]["data"]["memberId"].alias("member_id"),
        F.when(has_metadata, F.from_json("record", _STATE_FIELDS.format(fields=_METADATA))["value"]["data"]).alias("metadata"),
        F.when(~has_metadata, F.from_json("record", _STATE_FIELDS.format(fields=_ASSIGNMENT))["value"]["data"]).alias("assignment"),
    )
    in_order = Window.partitionBy("partition", "group", "member_id").orderBy("offset")
    of_kind = Window.partitionBy("partition", "group", "member_id", "record_type").orderBy("offset")
    # Of a static member that left for a while the epoch is -2: it is not in the group until it has another one.
    is_there = ~F.col("is_tombstone") & (has_metadata | (F.col("assignment.memberEpoch") >= 0))
    held = F.concat(*(_by_id(F.col(f"assignment.{name}")) for name in ("assignedPartitions", "partitionsPendingRevocation")))
    states = parsed.select(
        "group",
        F.lit(CONSUMER).alias("group_type"),
        "member_id",
        "offset",
        F.col("timestamp").alias("at"),
        F.lead("timestamp").over(of_kind).alias("until_of_kind"),
        F.lead("timestamp").over(in_order).alias("until"),
        F.row_number().over(of_kind).alias("number"),
        F.when(F.col("assignment.memberEpoch") > 0, F.col("assignment.memberEpoch")).alias("generation"),
        *(F.col(f"metadata.{field}").alias(name) for field, name in _FIELDS.items()),
        F.when(~has_metadata, held).alias("partitions"),
        is_there.alias("is_there"),
    )
    return states.where("is_there").drop("is_there")


_FIELDS: Final = {
    "instanceId": "group_instance_id",
    "clientId": "client_id",
    "clientHost": "client_host",
    "classicMemberMetadata.sessionTimeoutMs": "session_timeout",
    "rebalanceTimeoutMs": "rebalance_timeout",
    "serverAssignor": "assignor",
    "subscribedTopicNames": "subscribed_topics",
    "subscribedTopicRegex": "subscribed_regex",
}


def _by_name(assignment: Column) -> Column:
    """Partitions of a classic member, by the topic's name; empty where its assignment is not a consumer's."""
    return _flat(F.map_entries(assignment), "key", "value", "topic")


def _by_id(topics: Column) -> Column:
    return _flat(topics, "topicId", "partitions", "topic_id")


def _flat(topics: Column, key: str, numbers: str, name: str) -> Column:
    def of_topic(entry: Column) -> Column:
        none = F.lit(None).cast("string")
        topic, topic_id = (entry[key], none) if name == "topic" else (none, entry[key])
        return F.transform(
            entry[numbers], lambda number: F.struct(topic.alias("topic"), topic_id.alias("topic_id"), number.alias("partition"))
        )

    return F.coalesce(F.flatten(F.transform(topics, of_topic)), F.array().cast(_PARTITIONS)).cast(_PARTITIONS)


def members(classic: DataFrame, consumer: DataFrame) -> DataFrame:
    """One row per member id, with what was last known of it, as the table `members`."""
    states = classic.unionByName(consumer, allowMissingColumns=True)
    latest = {name: F.max_by(name, F.when(F.col(name).isNotNull(), F.col("offset"))).alias(name) for name in _ATTRIBUTES}
    found = states.groupBy(*_MEMBER).agg(
        *latest.values(),
        F.min("generation").alias("first_generation"),
        F.max("generation").alias("last_generation"),
        F.min("at").alias("joined_at"),
        F.max("at").alias("last_seen_at"),
        F.max_by("until", "offset").alias("left_at"),
    )
    return found.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in MEMBERS.fields))


def topic_names(commits: DataFrame) -> DataFrame:
    """Topic ids and their names, by the commits that have both."""
    named = commits.where(F.col("topic_id").isNotNull() & F.col("topic").isNotNull())
    return named.groupBy("topic_id").agg(F.max_by("topic", "offset").alias("name"))


def ownership(classic: DataFrame, consumer: DataFrame, names: DataFrame, members: DataFrame) -> DataFrame:
    """One row per partition, member and interval, as the table `ownership`."""
    # Of KIP-848 members only the records of assignments count: the others do not say what a member has.
    assignments = consumer.where(F.col("partitions").isNotNull()).withColumn("until", F.col("until_of_kind"))
    states = classic.unionByName(assignments, allowMissingColumns=True)
    held = states.select(*_MEMBER, "at", "until", "number", "generation", F.explode("partitions").alias("held")).select("*", "held.*")
    named = held.join(F.broadcast(names), "topic_id", "left").withColumn("topic", F.coalesce("topic", "name"))
    key = [*_MEMBER, "topic", "topic_id", "partition"]
    in_order = Window.partitionBy(*key).orderBy("number")
    is_new = F.coalesce(F.col("number") - F.lag("number").over(in_order) > 1, F.lit(True)).cast("int")
    islands = named.withColumn("is_new", is_new).withColumn("island", F.sum("is_new").over(in_order))
    intervals = islands.groupBy(*key, "island").agg(
        F.min("at").alias("from_at"),
        F.max_by("until", "number").alias("to_at"),
        F.min("generation").alias("first_generation"),
        F.max("generation").alias("last_generation"),
    )
    owners = members.select(*_MEMBER, "group_instance_id", "client_id", "client_host")
    return intervals.join(owners, [*_MEMBER]).select(*OWNERSHIP.fieldNames())


def last_commits(commits: DataFrame, ownership: DataFrame) -> DataFrame:
    """The commits that each classic member made of its partitions: the first, the last, and at how many times."""
    owners = ownership.where(F.col("group_type") == CLASSIC).select(
        "group", "topic", "partition", F.col("from_at").alias("at"), F.struct("member_id", "to_at").alias("owner")
    )
    made = commits.select("group", "topic", "partition", F.col("committed_at").alias("at"), F.lit(True).alias("is_commit"))
    in_order = Window.partitionBy("group", "topic", "partition").orderBy("at", F.col("is_commit").isNotNull())
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    timeline = made.unionByName(owners, allowMissingColumns=True)
    owned = timeline.withColumn("owner", F.last("owner", ignorenulls=True).over(so_far)).where(F.col("is_commit").isNotNull())
    during = owned.where(F.col("owner.to_at").isNull() | (F.col("at") <= F.col("owner.to_at")))
    return during.groupBy("group", "owner.member_id").agg(
        F.min("at").alias("first_commit"), F.max("at").alias("last_commit"), F.count_distinct("at").alias("commit_times")
    )


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
