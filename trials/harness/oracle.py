"""What must hold of records and groups, whatever is done to brokers and members: nothing lost, nothing twice, a group never ahead.

A group may be behind what is processed: Spark reports a batch when it plans the next one. It may not be ahead of every finished batch:
a consumer that starts from the group would then miss records. And it may not go back.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from ottla.groups.events import GroupEvent
from ottla.history.group_history import histories_of_events
from ottla.protocol.model import TopicPartition

Place = tuple[int, int]
"""Partition and offset."""
Row = tuple[int, int, str]
"""Partition, offset and value of a record that was processed."""
Offsets = Mapping[TopicPartition, int]


class GroupSnapshot(NamedTuple):
    """The group's offsets, and those of what is processed, read right after them: it cannot be behind the group."""

    committed: Offsets
    processed: Offsets


def lost(acknowledged: Mapping[Place, str], rows: Container[Row]) -> list[Place]:
    """Records that were acknowledged to the producer and not processed, or with another value."""
    return sorted(place for place, value in acknowledged.items() if (*place, value) not in rows)


def wrong_rows(acknowledged: Mapping[Place, str], rows: Mapping[Row, int], committed: Offsets) -> list[str]:
    """Records below the committed offsets that are not in the table exactly once, or are something else there; and any row too many."""
    ends = {partition.partition: offset for partition, offset in committed.items()}
    counts: dict[Place, int] = {}
    for (partition, offset, _), count in rows.items():
        counts[partition, offset] = counts.get((partition, offset), 0) + count
    twice = [f"{partition}@{offset} is there {count} times" for (partition, offset), count in counts.items() if count > 1]
    due = {(partition, offset): value for (partition, offset), value in acknowledged.items() if offset < ends.get(partition, 0)}
    missing = [f"{place[0]}@{place[1]} is {'something else' if place in counts else 'lost'}" for place in lost(due, rows)]
    return sorted(twice) + sorted(missing)


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


def owned_twice(events: Sequence[GroupEvent]) -> list[str]:
    """Partitions that two members own in one generation, also where two coordinators speak of the same one."""
    owners: dict[tuple[str, int, str, int], set[str]] = {}
    for event in events:
        if event.kind == "sync_completed":
            for member in event.members:
                for topic, numbers in member.assignment.items():
                    for number in numbers:
                        owners.setdefault((event.group, event.generation, topic, number), set()).add(member.member_id)
    return [
        f"{topic}-{number} in generation {generation} of {group}: {', '.join(sorted(members))}"
        for (group, generation, topic, number), members in owners.items()
        if len(members) > 1
    ]


def without_cause(events: Sequence[GroupEvent]) -> list[str]:
    """Rebalances for which no event gives a cause."""
    histories = histories_of_events(events).values()
    rebalances = (rebalance for history in histories for rebalance in history.generations())
    return [f"generation {each.generation} of {each.group} ({each.outcome})" for each in rebalances if not each.trigger]
