"""The results of a migration as text and as JSON."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.core.text import printable

if TYPE_CHECKING:
    from ottla.spark.migration.job import Migrated
    from ottla.spark.migration.offsets import Carried


def summary(source: str, target: str, migrated: "Migrated") -> str:
    """What was copied, and each group in the target."""
    return "\n".join([f"{migrated.records} records copied from {source} to {target}", *group_lines(migrated.groups)])


def group_lines(groups: "Mapping[str, Carried]") -> list[str]:
    """A line for each group: how many records it reads again, and its offset in each partition of the target."""
    return [
        f"group {printable(group)} reads {carried.replayed} records again, from "
        + ", ".join(f"{partition}:{offset}" for partition, offset in sorted(carried.offsets.items()))
        for group, carried in groups.items()
    ]


def document(source: str, target: str, migrated: "Migrated") -> dict[str, Any]:
    """The same for --json."""
    return {"source": source, "target": target, "records": migrated.records, "groups": groups_document(migrated.groups)}


def groups_document(groups: "Mapping[str, Carried]") -> dict[str, Any]:
    """Each group's offsets and its number of records that it reads again."""
    return {
        group: {"offsets": {str(partition): offset for partition, offset in sorted(carried.offsets.items())}, "replayed": carried.replayed}
        for group, carried in groups.items()
    }
