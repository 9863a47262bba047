"""Where the inputs of pipelines come from: topics of a cluster, and where the partitions of its topics end.

It decides which topic an input is and how much of it is read; what is made of it is the pipelines' business. It waits for brokers as
long as a client's settings say, and says in a sentence what is in the way.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import EARLIEST, LATEST, Failure
from ottla.consumer.settings import parse_client_settings
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.pipelines import Pipeline
from ottla.spark.schemas import END_OFFSETS, GROUP_EVENTS_TOPIC, OFFSETS_TOPIC

TOPICS: Final[Mapping[str, str]] = {
    "group_event_records": GROUP_EVENTS_TOPIC,
    "group_records": OFFSETS_TOPIC,
    "committed_group_records": OFFSETS_TOPIC,
}
"""Inputs that are topics; of these a pipeline has one, which a stream follows."""
DECODE: Final[Mapping[str, str]] = {name: "group_records" for name, topic in TOPICS.items() if topic == OFFSETS_TOPIC}
ISOLATION: Final[Mapping[str, str]] = {"committed_group_records": "read_committed"}
"""Commits inside a transaction count when it is committed, and never when it is aborted."""
_MISSING: Final = {
    GROUP_EVENTS_TOPIC: "only Ottla's own broker publishes group events",
    OFFSETS_TOPIC: "no group has ever committed on this cluster",
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class InputError(Exception):
    """An input that cannot be read: the sentence says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInputs:
    """A cluster, and what of it is asked for.

    `properties` are a Kafka consumer's (security, timeouts), without any "kafka." before them; `topics` those whose records' timestamps
    tell where they ended over time; `now_ms` is a clock (milliseconds since 1970), the machine's by default.
    """

    spark: SparkSession
    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    now_ms: Callable[[], int] = _now_ms

    def offsets(self, pipeline: Pipeline) -> dict[str, dict[TopicPartition, tuple[int, int]]]:
        """Where each partition of the pipeline's topics begins and ends now. Raises InputError, ClientError or ValueError."""
        found: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        for name in pipeline.inputs:
            if name in TOPICS:
                with self._admin(name) as admin:
                    found[name] = _offsets(admin, _partitions(admin, [TOPICS[name]]))
        return found

    def read(self, pipeline: Pipeline, offsets: Mapping[str, Mapping[TopicPartition, tuple[int, int]]]) -> dict[str, DataFrame]:
        """Every input: topics up to these ends, and only then where the partitions end: no commit is ahead of what was measured."""
        records = {name: self._topic(name, pipeline.inputs[name], limits) for name, limits in offsets.items()}
        return {**records, **self.measure(pipeline)}

    def stream(self, name: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """A topic from its beginning, and whatever comes; `options` are the source's, on top of ours."""
        options = {**self._options(name), "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("ottla").schema(schema).options(**options).load()

    def measure(self, pipeline: Pipeline) -> dict[str, DataFrame]:
        """The inputs that tell where partitions end, as it is now. Raises InputError, ClientError or ValueError."""
        found: dict[str, DataFrame] = {}
        if "end_offsets" in pipeline.inputs:
            found["end_offsets"] = self._end_offsets()
        if "topic_records" in pipeline.inputs:
            schema = pipeline.inputs["topic_records"]
            found["topic_records"] = self._records_of(schema) if self.topics else self.spark.createDataFrame([], schema)
        return found

    def _topic(self, name: str, schema: StructType, limits: Mapping[TopicPartition, tuple[int, int]]) -> DataFrame:
        ends: dict[str, dict[str, int]] = {}
        for partition, (_, end) in limits.items():
            ends.setdefault(partition.topic, {})[str(partition.partition)] = end
        options = {**self._options(name), "endingOffsets": json.dumps(ends)}
        return self.spark.read.format("ottla").schema(schema).options(**options).load()

    def _records_of(self, schema: StructType) -> DataFrame:
        with self._admin() as admin:
            _partitions(admin, self.topics)
        return self.spark.read.format("ottla").schema(schema).options(**self._options(None)).load()

    def _end_offsets(self) -> DataFrame:
        with self._admin() as admin:
            topics = [topic for topic in admin.list_topics().values() if not topic.is_internal]
            partitions = [
                TopicPartition(topic.name, number) for topic in topics for number, leader in topic.leaders.items() if leader is not None
            ]
            limits = _offsets(admin, partitions)
        now = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
        rows = [(*partition, start, end, now) for partition, (start, end) in limits.items()]
        return self.spark.createDataFrame(rows, END_OFFSETS)

    def _options(self, name: str | None) -> dict[str, str]:
        """The source's options for an input; without a name those for `topics`."""
        options = {f"kafka.{setting}": value for setting, value in self._kafka(name).items()}
        if name is None:
            return {"subscribe": ",".join(self.topics), **options}
        return {"subscribe": TOPICS[name], **({"decode": DECODE[name]} if name in DECODE else {}), **options}

    def _admin(self, name: str | None = None) -> AdminClient:
        return AdminClient(parse_client_settings(self._kafka(name)))

    def _kafka(self, name: str | None) -> dict[str, str]:
        isolation = {"isolation.level": ISOLATION[name]} if name is not None and name in ISOLATION else {}
        return {**self.properties, **isolation, "bootstrap.servers": self.bootstrap_servers}


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
