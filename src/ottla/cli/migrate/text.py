"""The results of a migration as text, as JSON and as a plan."""

from typing import TYPE_CHECKING, Any

from ottla.cli.groups.reset_plan_file import write_plan
from ottla.core.model import TopicPartition
from ottla.core.text import printable

if TYPE_CHECKING:
    from ottla.spark.migration.job import Migrated


def summary(source: str, target: str, migrated: "Migrated", *, is_forecast: bool) -> str:
    """What was copied, or would be, and for each group how many records it reads again, and its offset in each partition of the target."""
    copied, reads = ("would be copied", "would read") if is_forecast else ("copied", "reads")
    groups = [
        f"group {printable(group)} {reads} {carried.replayed} records again, from "
        + ", ".join(f"{partition}:{offset}" for partition, offset in sorted(carried.offsets.items()))
        for group, carried in migrated.groups.items()
    ]
    gone = [f"{migrated.gone} records of {target} are from an earlier run, and {source} no longer has them"] if migrated.gone else []
    return "\n".join([f"{migrated.records} records {copied} from {source} to {target}", *gone, *groups])


def document(source: str, target: str, migrated: "Migrated", *, is_forecast: bool) -> dict[str, Any]:
    """The same for --json; "replay" is the number of records that a group reads again."""
    groups = {
        group: {"replay": carried.replayed, "offsets": {str(partition): offset for partition, offset in sorted(carried.offsets.items())}}
        for group, carried in migrated.groups.items()
    }
    return {
        "source": source,
        "target": target,
        "dry_run": is_forecast,
        "records": migrated.records,
        "gone": migrated.gone,
        "groups": groups,
    }


def plan(target: str, migrated: "Migrated") -> str:
    """The groups' offsets as CSV, for --from-file of `ottla groups --reset-offsets` and kafka-consumer-groups."""
    offsets = {
        group: {TopicPartition(target, partition): offset for partition, offset in sorted(carried.offsets.items())}
        for group, carried in migrated.groups.items()
    }
    return write_plan(offsets, with_group=True)
