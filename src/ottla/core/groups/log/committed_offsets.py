"""The offsets of an OffsetCommit in columns: one object for each topic, whatever its number of partitions.

In the log they are ordinary records, whose encoding is in offset_frames.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.groups.log.records import NO_TOPIC_ID, OffsetRecord, OffsetValue


class TopicOffsets(NamedTuple):
    """Offsets of one topic in columns of equal length: `offsets[i]` belongs to `partitions[i]`.

    `metadata` None: no partition has any, the usual case. Of a partition that occurs twice the later one counts.
    """

    topic: str
    topic_id: bytes
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None = None


def partition_count(topics: Sequence[TopicOffsets]) -> int:
    """The partitions of all topics."""
    return len(topics[0].partitions) if len(topics) == 1 else sum([len(topic.partitions) for topic in topics])


class CommittedOffsets(LazySequence[OffsetRecord]):
    """The records that one OffsetCommit stores, one for each partition in the order of the request, created on demand.

    `expire_timestamp_ms` is None unless the commit asked for its own expiry; then leader epochs and topic ids are the unknown ones.
    """

    __slots__ = ("_count", "commit_timestamp_ms", "expire_timestamp_ms", "group_id", "topics")

    def __init__(
        self, group_id: str, topics: tuple[TopicOffsets, ...], *, commit_timestamp_ms: int, expire_timestamp_ms: int | None = None
    ) -> None:
        self.group_id = group_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topics = topics if expire_timestamp_ms is None else tuple(map(_of_version_1, topics))
        self._count = partition_count(topics)

    def __len__(self) -> int:
        return self._count

    def values(self, topic: TopicOffsets) -> Iterator[OffsetValue]:
        """The values of one of its topics, one for each partition."""
        metadata = repeat("") if topic.metadata is None else topic.metadata
        columns = zip(
            topic.offsets,
            topic.leader_epochs,
            metadata,
            repeat(self.commit_timestamp_ms),
            repeat(self.expire_timestamp_ms),
            repeat(topic.topic_id),
            strict=False,
        )
        return map(tuple.__new__, repeat(OffsetValue), columns)

    def _make(self) -> tuple[OffsetRecord, ...]:
        return tuple(
            OffsetRecord(group_id=self.group_id, topic=topic.topic, partition=partition, value=value)
            for topic in self.topics
            for partition, value in zip(topic.partitions, self.values(topic), strict=True)
        )


def _of_version_1(topic: TopicOffsets) -> TopicOffsets:
    # The only value version with an expiry contains neither epoch nor topic id: a restart would lose them, so they are dropped now.
    return topic._replace(topic_id=NO_TOPIC_ID, leader_epochs=[-1] * len(topic.partitions))
