"""Copies a topic into a new one with another number of partitions, and translates the groups' offsets. The shell around `steps`.

Kafka cannot reduce the partitions of a topic, so users copy it into a new one. Before it writes, it checks that the target is empty and
that the groups have no members. Producers must have stopped: records that arrive in the source meanwhile are not copied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedGroup, DescribedTopic, Failure
from ottla.core.model import TopicPartition
from ottla.spark.copy.steps import MURMUR2, OFFSET_MAP, ROUTED, commits_frame, route, sort_for_copy, translate, with_latest_time
from ottla.spark.copy.writer import CopyError, CopyWriter
from ottla.spark.runner.tables import Tables

OFFSET_MAP_TABLE = "offset_map"
WITHOUT_MEMBERS = ("Empty", "Dead")

Commits = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy: the number of records, and the offsets that were committed for each group in the target."""

    records: int
    groups: Commits


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCopy:
    """A copy of `source` into `target`, which exists. `groups` None: every group that has committed offsets for the source.

    The offset map is stored as a Parquet table under `directory`. Raises CopyError, with a message that says what to do, and ClientError
    when no broker answers.
    """

    bootstrap_servers: str
    source: str
    target: str
    directory: str
    partitioner: str = MURMUR2
    groups: tuple[str, ...] | None = None

    def run(self, spark: SparkSession) -> Copied:
        """Copy the records, then commit for the groups."""
        with AdminClient(self.bootstrap_servers) as admin:
            begins = self._check_target(admin)
            commits = self._commits(admin)
        partitions = len(begins)
        tables = Tables(spark, self.directory)
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": self.source, "includeHeaders": "true"}
        records = spark.read.format("ottla").options(**options).load()
        ordered = sort_for_copy(route(with_latest_time(records), partitions, self.partitioner)).select(ROUTED.fieldNames())
        written = ordered.mapInArrow(CopyWriter(self.bootstrap_servers, self.target), OFFSET_MAP)
        # Stored at once: computing the table twice would write the records twice.
        offset_map = tables.write(OFFSET_MAP_TABLE, written, OFFSET_MAP)
        counts = {row["target_partition"]: row["count"] for row in offset_map.groupBy("target_partition").count().collect()}
        with AdminClient(self.bootstrap_servers) as admin:
            _check_once(admin, begins, counts)
        plain = {group: [(each.partition, offset) for each, offset in offsets.items()] for group, offsets in commits.items()}
        moved: dict[str, dict[TopicPartition, int]] = {}
        if plain:
            for row in translate(commits_frame(offset_map, plain), offset_map, partitions).collect():
                moved.setdefault(row["group"], {})[TopicPartition(self.target, row["target_partition"])] = row["target_offset"]
        with AdminClient(self.bootstrap_servers) as admin:
            for group, offsets in moved.items():
                _commit(admin, group, offsets)
        return Copied(sum(counts.values()), moved)

    def _check_target(self, admin: AdminClient) -> Mapping[TopicPartition, int]:
        """The offsets of the target's empty partitions."""
        described = admin.describe_topics([self.source, self.target])
        for name in (self.source, self.target):
            if not isinstance(described[name], DescribedTopic):
                raise CopyError(f"there is no topic {name}: create it first")
        target = described[self.target]
        assert isinstance(target, DescribedTopic)
        places = [TopicPartition(self.target, number) for number in target.leaders]
        begins = admin.list_offsets(places, EARLIEST)
        if begins != admin.list_offsets(places, LATEST):
            raise CopyError(f"{self.target} has records already: copy into an empty topic")
        return begins

    def _commits(self, admin: AdminClient) -> dict[str, dict[TopicPartition, int]]:
        """The groups' offsets for the source. The groups must have no members: these would keep committing for the source."""
        names = self.groups if self.groups is not None else tuple(group.group_id for group in admin.list_groups())
        found: dict[str, dict[TopicPartition, int]] = {}
        for group, offsets in admin.committed(names).items():
            if isinstance(offsets, Failure):
                raise CopyError(f"the offsets of group {group} cannot be read: {offsets.message or offsets.code.name}")
            mine = {place: each.offset for place, each in offsets.items() if place.topic == self.source and each.offset >= 0}
            if mine:
                found[group] = mine
        _check_without_members(admin, found)
        return found


def _check_once(admin: AdminClient, begins: Mapping[TopicPartition, int], counts: Mapping[int, int]) -> None:
    """Check that no record was copied twice, since Spark may rerun a task when machines are lost, and that there are no other writers."""
    for place, end in admin.list_offsets(list(begins), LATEST).items():
        found, copied = end - begins[place], counts.get(place.partition, 0)
        if found != copied:
            raise CopyError(
                f"{place.topic}-{place.partition} has {found} records, and {copied} were copied: a task ran twice, or another producer"
                f" writes there. Delete {place.topic} and copy again"
            )


def _check_without_members(admin: AdminClient, groups: Iterable[str]) -> None:
    for group, described in admin.describe_groups(groups).items():
        if isinstance(described, DescribedGroup) and described.state not in WITHOUT_MEMBERS:
            raise CopyError(f"group {group} is {described.state}: stop its consumers first")


def _commit(admin: AdminClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    results = admin.commit(group, offsets)
    failures = [results] if isinstance(results, Failure) else [each for each in results.values() if each is not None]
    if failures:
        raise CopyError(f"the records are copied, but the offsets of group {group} are not: {failures[0].message or failures[0].code.name}")
