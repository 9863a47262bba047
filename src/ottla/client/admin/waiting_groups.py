"""Groups whose lag cannot shrink for readers of committed records: an open transaction lies before the end of a partition.

Such a reader stops at the last stable offset, the first record of the oldest open transaction. Records after it are lag whatever the
consumers do, until the transaction ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST, CommittedOffset, Failure, PartitionTransaction
from ottla.protocol.model import TopicPartition
from ottla.text import printable


class WaitingPartition(NamedTuple):
    """A group's partition with records behind the last stable offset; `committed` is not past it. `lag` counts all records to the end."""

    group: str
    committed: int
    end: int
    transaction: PartitionTransaction

    @property
    def lag(self) -> int:
        """Offsets from the committed one to the end."""
        return self.end - self.committed

    def in_words(self, now_ms: int) -> str:
        """How much of the lag waits, and who it waits for; a sentence."""
        waits, opened = self.end - self.transaction.start_offset, self.transaction
        where = f"{printable(opened.partition.topic)}-{opened.partition.partition}"
        return (
            f"Consumer group {printable(self.group)} has a lag of {self.lag} in {where}, {'all' if waits == self.lag else waits} of it"
            f" behind an open transaction. {opened.in_words(now_ms)}"
        )


def waiting_partitions(
    admin: AdminClient, committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]], ends: Mapping[TopicPartition, int | None]
) -> list[WaitingPartition]:
    """Where groups wait for an open transaction, by group and partition; `ends` of partitions without a leader are None.

    Raises ClientError, also where brokers are too old to describe producers (before Kafka 3.0) and a partition has an open transaction.
    """
    lagging = {
        partition
        for offsets in committed.values()
        for partition, at in offsets.items()
        if at.offset >= 0 and (ends.get(partition) or 0) > at.offset
    }
    stable = admin.last_stable_offsets(sorted(lagging))
    held = [partition for partition, offset in stable.items() if offset < (ends[partition] or 0)]
    opened = admin.first_open_transactions(held)
    return [
        WaitingPartition(group, at.offset, end, opened[partition])
        for group, offsets in sorted(committed.items())
        for partition, at in sorted(offsets.items())
        if partition in opened and (end := ends[partition]) is not None and 0 <= at.offset <= opened[partition].start_offset < end
    ]


def waiting_groups(admin: AdminClient, groups: Sequence[str]) -> Iterator[WaitingPartition]:
    """The same for these groups, none for all, with their committed offsets and the ends as they are now."""
    names = list(groups) or [group.group_id for group in admin.list_groups()]
    committed = {name: answer for name, answer in admin.committed(names).items() if not isinstance(answer, Failure)}
    wanted = {partition for offsets in committed.values() for partition in offsets}
    described = admin.describe_topics(sorted({partition.topic for partition in wanted}))
    leaders = {name: topic.leaders for name, topic in described.items() if not isinstance(topic, Failure)}
    led = [partition for partition in wanted if leaders.get(partition.topic, {}).get(partition.partition) is not None]
    yield from waiting_partitions(admin, committed, admin.list_offsets(sorted(led), LATEST))
