"""Source and target topic of a migration: their shape, the target's creation, and what refuses it.

The source is looked up; the target is looked up, made with the settings of the source, or checked. While the target is filled it keeps
every record with its own time: nothing is deleted, compacted or given another timestamp, so that a later run finds what is there. At the
end it gets the source's settings. It copies nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient as TopicAdmin
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
)

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic
from ottla.client.security.properties import to_librdkafka
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.values import Extent, Migration, MigrationError


class Shape(NamedTuple):
    """A topic: its name, its id ("": not known) and its number of partitions."""

    name: str
    topic_id: str
    partitions: int


def find(admin: AdminClient, topic: str) -> Shape | None:
    """The topic; None where it does not exist. Raises MigrationError where it cannot be described, ClientError."""
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, DescribedTopic):
        return Shape(topic, found.topic_id, len(found.leaders))
    if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise MigrationError(f"topic {topic} cannot be described: {found.message or found.code.name}")


def extents(admin: AdminClient, topic: Shape) -> dict[int, Extent]:
    """The offsets of every partition, up to the end at the client's isolation level. Raises ClientError."""
    places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    starts, ends = admin.list_offsets(places, EARLIEST), admin.list_offsets(places, LATEST)
    return {place.partition: Extent(starts[place], max(ends[place], starts[place])) for place in places}


_LONG_MAX: Final = str(2**63 - 1)
FILLING: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX,
    "message.timestamp.after.max.ms": _LONG_MAX,
    # A record that just fits into the source gets a header more.
    "max.message.bytes": "104857600",
}
"""The settings of the target while it is filled; brokers that do not know one go without it."""

NOT_COPIED: Final = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Settings that belong to the partitions of the source."""

REQUEST_S: Final = 30.0


class TopicSettings:
    """Topics and settings of one cluster. Raises MigrationError with the broker's reason."""

    def __init__(self, settings: ClientSettings, *, connect: Callable[[dict[str, Any]], Any] = TopicAdmin) -> None:
        config = {"bootstrap.servers": settings.bootstrap_servers, "client.id": settings.client_id, "log_level": 0}
        self._admin = connect({**config, **to_librdkafka(settings.security)})

    def read(self, topic: str) -> dict[str, str]:
        """The settings that were made for the topic itself."""
        entries = self._describe(topic)
        return {name: str(each.value) for name, each in entries.items() if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}

    def is_compacted(self, topic: str) -> bool:
        """Whether the topic is compacted, by a setting of its own or by the broker's."""
        return "compact" in str(self._describe(topic)["cleanup.policy"].value)

    def create(self, topic: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Create the topic with these settings but for those that FILLING names; `prepare` makes them."""
        config = {name: value for name, value in settings.items() if name not in FILLING and name not in NOT_COPIED}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config)
        self._wait(self._admin.create_topics([new], operation_timeout=REQUEST_S)[topic], f"topic {topic} cannot be created")

    def prepare(self, topic: str) -> None:
        """Set the topic as it is while it is filled."""
        entries = self._describe(topic)
        self._alter(topic, {name: value for name, value in FILLING.items() if name in entries and entries[name].value != value})

    def finish(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set what FILLING names as in `settings`, or to the default."""
        entries = self._describe(topic)
        self._alter(topic, {name: settings.get(name) for name in FILLING if name in entries})

    def _describe(self, topic: str) -> Mapping[str, Any]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found: Mapping[str, Any] = self._wait(self._admin.describe_configs([resource])[resource], f"the settings of {topic} cannot be read")
        return found

    def _alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        if not changes:
            return
        operation = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
        entries = [ConfigEntry(name, value, incremental_operation=operation[value is None]) for name, value in changes.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._wait(self._admin.incremental_alter_configs([resource])[resource], f"the settings of {topic} cannot be changed")

    def _wait(self, future: Any, what: str) -> Any:
        try:
            return future.result(REQUEST_S)
        except KafkaException as error:
            raise MigrationError(f"{what}: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise MigrationError(f"{what}: no broker answered within {REQUEST_S:g} s") from error


_POLL_S: Final = 0.1
_LEADERS_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Admins:
    """The admin clients of the source's and the target's cluster; `source` sees committed records only, `source_log` all.

    `lease`: of the target's, for the thread that renews the lease.
    """

    source: AdminClient
    source_log: AdminClient
    target: AdminClient
    lease: AdminClient


@contextmanager
def connect(migration: Migration) -> Iterator[Admins]:
    """Admin clients of both clusters. Raises ValueError for malformed addresses."""
    committed = replace(migration.source_cluster.client, is_read_committed=True)
    with (
        AdminClient(committed) as source,
        AdminClient(migration.source_cluster.client) as source_log,
        AdminClient(migration.target_cluster.client) as target,
        AdminClient(migration.target_cluster.client) as lease,
    ):
        yield Admins(source=source, source_log=source_log, target=target, lease=lease)


def find_source(migration: Migration, admins: Admins) -> Shape:
    """The source. Raises MigrationError where it does not exist or is the target, too; ClientError."""
    found = find(admins.source, migration.source)
    if found is None:
        raise MigrationError(f"topic {migration.source} does not exist")
    target = find(admins.target, migration.target)
    if target is not None and target.topic_id == found.topic_id and target.name == found.name:
        raise MigrationError(f"{migration.source} cannot be migrated into itself: name another topic")
    return found


def check_source(source: Shape, admins: Admins) -> None:
    """Raises MigrationError where the source is another topic than when the run began, or has other partitions; ClientError."""
    now = find(admins.source, source.name)
    if now is None:
        raise MigrationError(f"topic {source.name} was deleted while it was copied")
    if now.topic_id != source.topic_id:
        raise MigrationError(f"topic {source.name} was deleted and made again while it was copied: name another topic for the copy")
    if now.partitions != source.partitions:
        raise MigrationError(
            f"topic {source.name} has {now.partitions} partitions now, and had {source.partitions} when the run began: run the same"
            " command again, it continues with all of them"
        )


def open_transactions(source: Shape, ends: Mapping[int, Extent], admins: Admins) -> list[int]:
    """The partitions that have records behind these ends, which `admins.source` has given: an open transaction hides them. ClientError."""
    return [number for number, each in extents(admins.source_log, source).items() if each.end > ends[number].end]


def is_compacted(migration: Migration) -> bool:
    """Whether the source may lose records between others. Raises MigrationError."""
    return TopicSettings(migration.source_cluster.client).is_compacted(migration.source)


def find_target(migration: Migration, admins: Admins) -> Shape | None:
    """The target; None where it does not exist. Raises MigrationError for another number of partitions, or where none is given."""
    found = find(admins.target, migration.target)
    if found is not None and migration.partitions not in (None, found.partitions):
        raise MigrationError(
            f"topic {migration.target} exists and has {found.partitions} partitions, not {migration.partitions}: leave out --partitions,"
            " or name another topic"
        )
    if found is None and migration.partitions is None:
        raise MigrationError(f"topic {migration.target} does not exist: say with --partitions how many partitions it gets")
    return found


def make_target(
    migration: Migration, source: Shape, admins: Admins, *, pause: Callable[[float], None], clock: Callable[[], float] = time.monotonic
) -> Shape:
    """The target, created with the source's settings where it does not exist."""
    found, settings = find_target(migration, admins), TopicSettings(migration.target_cluster.client)
    if found is not None:
        return found
    assert migration.partitions is not None
    of_source = TopicSettings(migration.source_cluster.client).read(migration.source)
    settings.create(migration.target, migration.partitions, _replicas(source, admins), of_source)
    until = clock() + _LEADERS_S
    while True:
        described = admins.target.describe_topics([migration.target])[migration.target]
        if isinstance(described, DescribedTopic) and None not in described.leaders.values():
            return Shape(migration.target, described.topic_id, len(described.leaders))
        if clock() >= until:
            raise MigrationError(f"topic {migration.target} was created, but has no leaders: run the same command again")
        pause(_POLL_S)


def prepare_target(migration: Migration) -> None:
    """Set the target as it is while it is filled."""
    TopicSettings(migration.target_cluster.client).prepare(migration.target)


def finish_target(migration: Migration) -> None:
    """Give the target the source's settings instead of those while it is filled."""
    settings = TopicSettings(migration.source_cluster.client).read(migration.source)
    TopicSettings(migration.target_cluster.client).finish(migration.target, settings)


def _replicas(source: Shape, admins: Admins) -> int:
    """As many as the source has, as far as the target's cluster has brokers."""
    described = admins.source.describe_cluster([source.name]).topics[source.name]
    wanted = max(len(each.replicas) for each in described.values()) if isinstance(described, Mapping) else 1
    return min(wanted, len(admins.target.describe_cluster([]).brokers))
