"""What must hold for a streaming query after any kill: every record is in the table exactly once, and the group is never ahead.

The group may be behind: Spark reports a batch when it plans the next one. It may not be ahead of every finished batch, since a consumer
that starts from the group would then miss records; and it may not go back.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.files import Row

Place = tuple[int, int]
"""Partition and offset."""
Offsets = Mapping[TopicPartition, int]


class GroupSnapshot(NamedTuple):
    """The group's offsets, and those of the checkpoint read right after them: the checkpoint cannot be behind the group."""

    committed: Offsets
    processed: Offsets


def wrong_rows(acknowledged: Mapping[Place, str], rows: Mapping[Row, int], committed: Offsets) -> list[str]:
    """Records below the committed offsets that are not in the table exactly once, or are something else there; and any row too many."""
    ends = {partition.partition: offset for partition, offset in committed.items()}
    places: dict[Place, int] = {}
    for (partition, offset, _), count in rows.items():
        places[partition, offset] = places.get((partition, offset), 0) + count
    twice = [f"{partition}@{offset} is there {count} times" for (partition, offset), count in places.items() if count > 1]
    lost = [
        f"{partition}@{offset} is " + ("something else" if (partition, offset) in places else "lost")
        for (partition, offset), value in acknowledged.items()
        if offset < ends.get(partition, 0) and (partition, offset, value) not in rows
    ]
    return sorted(twice) + sorted(lost)


def invented(acknowledged: Mapping[Place, str], rows: Mapping[Row, int]) -> list[str]:
    """Rows that were never acknowledged as written. Only valid once every record has been acknowledged."""
    return sorted(f"{partition}@{offset} was never written" for partition, offset, _ in rows if (partition, offset) not in acknowledged)


def wrong_commits(before: Offsets, snapshot: GroupSnapshot) -> list[str]:
    """Offsets that are ahead of every batch that is done, or behind those of the check before."""
    ahead = [
        f"{topic}-{partition} is committed at {offset}, processed up to {snapshot.processed.get(TopicPartition(topic, partition), 0)}"
        for (topic, partition), offset in snapshot.committed.items()
        if offset > snapshot.processed.get(TopicPartition(topic, partition), 0)
    ]
    back = [
        f"{topic}-{partition} went back from {offset} to {snapshot.committed.get(TopicPartition(topic, partition), 'nothing')}"
        for (topic, partition), offset in before.items()
        if snapshot.committed.get(TopicPartition(topic, partition), -1) < offset
    ]
    return ahead + back
