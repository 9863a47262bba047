"""The groups of a migration: their offsets in the source, whether they have members, and their commits in the target."""

from collections.abc import Iterable, Mapping

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, Failure
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.migration.offsets import Carried, Positions
from ottla.spark.migration.values import MigrationError

WITHOUT_MEMBERS = ("Empty", "Dead")


def read_positions(admin: AdminClient, source: str, names: Iterable[str] | None) -> Positions:
    """The committed offsets of groups for `source`. `names` None: every group that has any. Raises MigrationError, ClientError."""
    wanted = tuple(names) if names is not None else tuple(group.group_id for group in admin.list_groups())
    found: dict[str, dict[int, int]] = {}
    for group, offsets in admin.committed(wanted).items():
        if isinstance(offsets, Failure):
            raise MigrationError(f"the offsets of group {group} cannot be read: {_words(offsets)}")
        mine = {place.partition: each.offset for place, each in offsets.items() if place.topic == source and each.offset >= 0}
        if mine:
            found[group] = mine
        elif names is not None:
            raise MigrationError(f"group {group} has no committed offsets for {source}: leave it out of --groups")
    return dict(sorted(found.items()))


def with_members(admin: AdminClient, groups: Iterable[str]) -> dict[str, str]:
    """The groups that have members, or are just getting or losing some, with their states. Raises MigrationError, ClientError."""
    found = {}
    for group, described in admin.describe_groups(groups).items():
        if isinstance(described, Failure):
            if described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise MigrationError(f"group {group} cannot be described: {_words(described)}")
        elif isinstance(described, DescribedGroup) and described.state not in WITHOUT_MEMBERS:
            found[group] = described.state
    return found


def commit(admin: AdminClient, target: str, carried: Mapping[str, Carried]) -> None:
    """Commit each group's offsets for the target; none that it has there is moved back. Raises MigrationError, ClientError."""
    for group, known in admin.committed(carried).items():
        if isinstance(known, Failure):
            raise MigrationError(f"the offsets of group {group} cannot be read: {_words(known)}")
        places = {TopicPartition(target, number): offset for number, offset in carried[group].offsets.items()}
        ahead = {place: offset for place, offset in places.items() if place not in known or known[place].offset < offset}
        if not ahead:
            continue
        results = admin.commit(group, ahead)
        failures = [results] if isinstance(results, Failure) else [each for each in results.values() if each is not None]
        if failures:
            raise MigrationError(
                f"all records are copied, but the offsets of group {group} were not committed: {_words(failures[0])}. Stop the group's"
                " members, and run the same command again"
            )


def _words(failure: Failure) -> str:
    return failure.message or failure.code.name
