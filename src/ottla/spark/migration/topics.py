"""Both topics of a migration: the source is looked up, the target looked up, checked or made. It copies nothing."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedTopic
from ottla.spark.migration.shape import Shape, extents, find
from ottla.spark.migration.target import TopicSettings
from ottla.spark.migration.values import Extent, Migration, MigrationError

_POLL_S: Final = 0.1
_LEADERS_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Admins:
    """The admin clients of the source's and the target's cluster; `source` sees committed records only, `source_log` all."""

    source: AdminClient
    source_log: AdminClient
    target: AdminClient


@contextmanager
def connect(migration: Migration) -> Iterator[Admins]:
    """Admin clients of both clusters. Raises ValueError for malformed addresses."""
    committed = replace(migration.source_cluster.client, is_read_committed=True)
    with (
        AdminClient(committed) as source,
        AdminClient(migration.source_cluster.client) as source_log,
        AdminClient(migration.target_cluster.client) as target,
    ):
        yield Admins(source=source, source_log=source_log, target=target)


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
