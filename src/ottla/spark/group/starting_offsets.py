"""Starting offsets of a new query from a group: its committed offsets, and `auto.offset.reset` where it has none.

A query with a checkpoint does not use them. Planning checks whether the log still holds the offsets.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.client.errors import RequestFailedError
from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import listed

RESETS: Final[Mapping[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""The values of Kafka's auto.offset.reset, with the start of partitions without a committed offset; None: an error."""


class NoCommittedOffsetError(Exception):
    """A partition for which the group has committed nothing, where auto.offset.reset is none."""


def committed_offsets(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    """The group's committed offsets; an unknown group has none. Raises ClientError."""
    answer = admin.committed([group])[group]
    if isinstance(answer, Failure):
        raise RequestFailedError(f"the offsets of group {group}: {answer.message or answer.code.name}", answer.code)
    return {partition: committed.offset for partition, committed in answer.items() if committed.offset >= 0}


def starting_offsets(
    group: str, committed: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], reset: str
) -> dict[TopicPartition, int]:
    """An offset for each of `partitions`, -2 for earliest and -1 for latest; `reset` is a key of RESETS.

    Raises NoCommittedOffsetError, naming partitions that have none, when `reset` is "none".
    """
    wanted = sorted(partitions)
    otherwise = RESETS[reset]
    missing = {partition for partition in wanted if partition not in committed}
    if otherwise is None:
        if missing:
            raise NoCommittedOffsetError(
                f"the group {group} has committed no offset for {listed(missing)}: commit one, or set the option "
                '"kafka.auto.offset.reset" to earliest or latest'
            )
        return {partition: committed[partition] for partition in wanted}
    return {partition: committed.get(partition, otherwise) for partition in wanted}
