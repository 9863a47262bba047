"""Inputs of pipelines: topics of a cluster, and the end offsets of its partitions.

It decides which topic an input is and up to which offsets it is read; the pipelines process it. Timeouts are those of the client's
settings; an InputError names the topic that cannot be read.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.client.settings import parse_client_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.options.values import PREFIX, bootstrap_timeout_ms
from ottla.spark.pipelines import Pipeline
from ottla.spark.schemas import END_OFFSETS, GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.spark.source.batch_reader import BatchReader

TOPICS: Final[Mapping[str, str]] = {
    "group_event_records": GROUP_EVENTS_TOPIC,
    "group_records": OFFSETS_TOPIC,
    "committed_group_records": OFFSETS_TOPIC,
}
"""Inputs that are topics; a pipeline has one of these, which a stream follows."""
DECODE: Final[Mapping[str, str]] = {name: "group_records" for name, topic in TOPICS.items() if topic == OFFSETS_TOPIC}
ISOLATION: Final[Mapping[str, str]] = {"committed_group_records": "read_committed"}
"""Commits inside a transaction count when it is committed, and never when it is aborted."""
PAST_S: Final = (*range(10, 121, 10), *range(180, 601, 60), 900, 1_800, 3_600, 7_200, 21_600, 86_400, 172_800, 604_800)
"""Ages of the past end offsets that are asked for, in seconds: close together where Burrow's window and most lags are."""
_MISSING: Final = {
    GROUP_EVENTS_TOPIC: "only Ottla's own broker publishes group events",
    OFFSETS_TOPIC: "no group has ever committed on this cluster",
}


_EndOffset = tuple[str, int, int | None, int, datetime]
"""A row of END_OFFSETS."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class InputError(Exception):
    """An input that cannot be read: the message says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInputs:
    """The inputs of one cluster.

    `properties` are a Kafka consumer's (security, timeouts), without any "kafka." before them; `topics` are those whose records'
    timestamps give end offsets over time; `now_ms` is a clock (milliseconds since 1970), the machine's by default.
    """

    spark: SparkSession
    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    now_ms: Callable[[], int] = _now_ms

    def offsets(self, pipeline: Pipeline) -> dict[str, dict[TopicPartition, tuple[int, int]]]:
        """The first and latest offset of each partition of the pipeline's topics. Raises InputError, ClientError or ValueError."""
        found: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        for name in pipeline.inputs:
            if name in TOPICS:
                with _first_admin(self._kafka(name)) as admin:
                    found[name] = _offsets(admin, _partitions(admin, [TOPICS[name]]))
        return found

    def read(self, pipeline: Pipeline, offsets: Mapping[str, Mapping[TopicPartition, tuple[int, int]]]) -> dict[str, DataFrame]:
        """Every input: topics up to these ends, and end offsets measured afterwards, so that no commit is ahead of them."""
        records = {name: self._topic(name, pipeline.inputs[name], limits) for name, limits in offsets.items()}
        return {**records, **self.measure(pipeline)}

    def reader(self, name: str, schema: StructType, limits: Mapping[TopicPartition, tuple[int, int]]) -> BatchReader:
        """The reader of a topic up to these ends, for workers that need no Spark between reading and writing."""
        options = parse_options(self._up_to(name, limits), Query.BATCH)
        return BatchReader(options, schema, tasks_max=int(self.spark.sparkContext.defaultParallelism))

    def stream(self, name: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """A topic from its beginning, as a stream; `options` are the source's, and override the defaults here."""
        options = {**self._options(name), "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("ottla").schema(schema).options(**options).load()

    def measure(self, pipeline: Pipeline) -> dict[str, DataFrame]:
        """The inputs that a stream does not follow, as of now. Raises InputError, ClientError or ValueError."""
        found: dict[str, DataFrame] = {}
        if "end_offsets" in pipeline.inputs:
            wants_past = "past_end_offsets" in pipeline.inputs
            now, past = self._end_offsets(PAST_S if wants_past else ())
            found["end_offsets"] = self.spark.createDataFrame(now, END_OFFSETS)
            if wants_past:
                found["past_end_offsets"] = self.spark.createDataFrame(past, END_OFFSETS)
        if "group_events_if_any" in pipeline.inputs:
            found["group_events_if_any"] = self._events_if_any(pipeline.inputs["group_events_if_any"])
        if "topic_records" in pipeline.inputs:
            schema = pipeline.inputs["topic_records"]
            found["topic_records"] = self._records_of(schema) if self.topics else self.spark.createDataFrame([], schema)
        return found

    def _topic(self, name: str, schema: StructType, limits: Mapping[TopicPartition, tuple[int, int]]) -> DataFrame:
        return self.spark.read.format("ottla").schema(schema).options(**self._up_to(name, limits)).load()

    def _up_to(self, name: str, limits: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, str]:
        ends: dict[str, dict[str, int]] = {}
        for partition, (_, end) in limits.items():
            ends.setdefault(partition.topic, {})[str(partition.partition)] = end
        return {**self._options(name), "endingOffsets": json.dumps(ends)}

    def _events_if_any(self, schema: StructType) -> DataFrame:
        """The events up to now; none where the broker publishes none, or does not let them be read."""
        with self._admin() as admin:
            if isinstance(admin.describe_topics([GROUP_EVENTS_TOPIC])[GROUP_EVENTS_TOPIC], Failure):
                return self.spark.createDataFrame([], schema)
            limits = _offsets(admin, _partitions(admin, [GROUP_EVENTS_TOPIC]))
        return self._topic("group_event_records", schema, limits)

    def _records_of(self, schema: StructType) -> DataFrame:
        with self._admin() as admin:
            _partitions(admin, self.topics)
        return self.spark.read.format("ottla").schema(schema).options(**self._options(None)).load()

    def _end_offsets(self, ages_s: Iterable[int]) -> tuple[list[_EndOffset], list[_EndOffset]]:
        """Start and end offsets now, and end offsets as they were so many seconds ago by the timestamps of the records that are left."""
        with self._admin() as admin:
            topics = [topic for topic in admin.list_topics().values() if not topic.is_internal]
            partitions = [
                TopicPartition(topic.name, number) for topic in topics for number, leader in topic.leaders.items() if leader is not None
            ]
            limits = _offsets(admin, partitions)
            now_ms = self.now_ms()
            past = [(now_ms - age * 1000, admin.list_offsets(partitions, now_ms - age * 1000)) for age in ages_s]
        now: list[_EndOffset] = [(*partition, start, end, _time(now_ms)) for partition, (start, end) in limits.items()]
        # The first record at or after a time is where the log ended before it; without one it had ended where it does now.
        return now, [
            (*partition, None, offset if offset >= 0 else limits[partition][1], _time(at_ms))
            for at_ms, offsets in past
            for partition, offset in offsets.items()
        ]

    def _options(self, name: str | None) -> dict[str, str]:
        """The source's options for an input; without a name, those for `topics`."""
        options = {f"kafka.{setting}": value for setting, value in self._kafka(name).items()}
        if name is None:
            return {"subscribe": ",".join(self.topics), **options}
        return {"subscribe": TOPICS[name], **({"decode": DECODE[name]} if name in DECODE else {}), **options}

    def _admin(self, name: str | None = None) -> AdminClient:
        return AdminClient(parse_client_settings(self._kafka(name)))

    def _kafka(self, name: str | None) -> dict[str, str]:
        isolation = {"isolation.level": ISOLATION[name]} if name is not None and name in ISOLATION else {}
        return {**self.properties, **isolation, "bootstrap.servers": self.bootstrap_servers}


def check_brokers(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise NoBrokerReachedError in seconds where no broker can be reached; also ClientError, or ValueError for wrong properties."""
    with _first_admin({**properties, "bootstrap.servers": bootstrap_servers}) as admin:
        admin.describe_topics([OFFSETS_TOPIC])


def _first_admin(properties: Mapping[str, str]) -> AdminClient:
    """For the first requests of a run: later ones wait longer, for brokers that restart."""
    client = parse_client_settings(properties)
    options = {f"{PREFIX}{name}": value for name, value in properties.items()}
    return AdminClient(client, bootstrap_timeout_ms=bootstrap_timeout_ms(options, client))


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _offsets(admin: AdminClient, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    starts, ends = admin.list_offsets(partitions, EARLIEST), admin.list_offsets(partitions, LATEST)
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def _partitions(admin: AdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic, described in admin.describe_topics(topics).items():
        if isinstance(described, Failure):
            raise InputError(_refusal(topic, described))
        found += [TopicPartition(topic, number) for number in described.leaders]
    return found


def _refusal(topic: str, failure: Failure) -> str:
    if failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {topic}" + (f": {_MISSING[topic]}" if topic in _MISSING else "")
    if failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"no permission to read the topic {topic}: it needs the ACL operations Describe and Read"
    return f"the topic {topic} cannot be read: {failure.message or failure.code.name}"
