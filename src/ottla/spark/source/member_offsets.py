"""The offsets of a batch of a query that is a member of its group: where each owned partition begins and ends, as JSON. Pure.

The offsets of `stream_offsets` (where the batch ends in each owned partition), and under "#member" where it begins in those that have
records: a batch that is read again after a restart needs no group for that. "committed" has what the group had committed, where that
differs from the beginning, and "generation" and "member_id" who planned the batch.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.core.model import TopicPartition
from ottla.spark.group.progress import Processed
from ottla.spark.source.stream_offsets import MEMBER, CheckpointError, Offsets, from_json, to_json

_STARTS: Final = "starts"
_COMMITTED: Final = "committed"


class Batch(NamedTuple):
    """A batch: its ends, and its starts in the partitions that have records. `committed`: see `Processed`; None without a member's part."""

    ends: Offsets
    starts: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int] | None

    def processed(self) -> dict[TopicPartition, Processed]:
        """The batch as what a query has processed. Of a batch that commit mode planned, the group's offset may be any one before it."""
        if self.committed is None:
            return {partition: Processed(0, end) for partition, end in self.ends.by_partition.items()}
        return {
            partition: Processed(self.committed.get(partition, self.starts.get(partition, end)), end)
            for partition, end in self.ends.by_partition.items()
        }


def batch_to_json(batch: Batch, *, generation: int, member_id: str) -> dict[str, Any]:
    """The end of a micro-batch, for Spark's checkpoint."""
    committed = {
        partition: offset
        for partition, offset in (batch.committed or {}).items()
        if offset != batch.starts.get(partition, batch.ends.by_partition[partition])
    }
    member: dict[str, Any] = {_STARTS: _plain(batch.starts), "generation": generation, "member_id": member_id}
    if committed:
        member[_COMMITTED] = _plain(committed)
    return {**to_json(batch.ends), MEMBER: member}


def batch_from_json(value: Mapping[str, Any]) -> Batch:
    """A batch from its end in the checkpoint, also of commit mode or of Spark's own source. Raises CheckpointError."""
    ends = from_json({name: offsets for name, offsets in value.items() if name != MEMBER})
    member = value.get(MEMBER)
    if member is None:
        return Batch(ends, {}, None)
    if not isinstance(member, Mapping):
        raise CheckpointError(f"{MEMBER} in the checkpoint is no JSON object: {member!r}")
    return Batch(ends, from_json(member.get(_STARTS, {})).by_partition, from_json(member.get(_COMMITTED, {})).by_partition)


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value
