"""Where a new query starts that takes over from a group: at what the group committed, elsewhere as `auto.offset.reset` says.

Only a start: once a query has a checkpoint, nobody looks here. Whether the log still holds the offsets is for planning to find out.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import EARLIEST, LATEST, Failure
from ottla.consumer.errors import RequestFailedError
from ottla.core.model import TopicPartition
from ottla.spark.offset_options import listed

RESETS: Final[Mapping[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""The values of Kafka's auto.offset.reset, and where a partition without a committed offset starts by each; None: nowhere."""


class NoCommittedOffsetError(Exception):
    """A partition for which the group has committed nothing, where auto.offset.reset is none."""


def committed_offsets(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    """What the group has committed. Raises ClientError; a group that nobody knows has committed nothing."""
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
