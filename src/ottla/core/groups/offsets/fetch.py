"""OffsetFetch: committed offsets, read from what the log contains."""

from collections.abc import Iterator, Sequence

from ottla.core.errors import ErrorCode
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import OffsetFetch
from ottla.core.groups.effects import FetchedOffset, OffsetFetchResult
from ottla.core.groups.lazy_sequence import LazySequence
from ottla.core.groups.log.records import NO_TOPIC_ID, OffsetValue
from ottla.core.java_text import java_order

NO_OFFSET = -1


class FetchedOffsets(LazySequence[FetchedOffset]):
    """The offsets of one topic, created one by one while the response is encoded.

    `values` belong to `partitions`, None where no offset is committed. They are those of the time of the request.
    """

    __slots__ = ("_partitions", "_topic_id", "_values")

    def __init__(self, partitions: Sequence[int], values: Sequence[OffsetValue | None], topic_id: bytes) -> None:
        self._partitions = partitions
        self._values = values
        self._topic_id = topic_id

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedOffset]:
        for partition, value in zip(self._partitions, self._values, strict=True):
            if value is None or _is_of_another_topic(value, self._topic_id):
                yield FetchedOffset(partition=partition, offset=NO_OFFSET, leader_epoch=-1, metadata="", error=ErrorCode.NONE)
            else:
                yield FetchedOffset(
                    partition=partition,
                    offset=value.offset,
                    leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error=ErrorCode.NONE,
                )

    def _make(self) -> tuple[FetchedOffset, ...]:
        return tuple(iter(self))


def fetch_offsets(context: CommandContext, command: OffsetFetch) -> None:
    """Answer with the committed offsets; -1 where none is committed, also for unknown groups."""
    group = context.state.groups.get(command.group_id)
    by_topic = context.state.replayed.offsets.get(command.group_id, {})
    if group is None or group.is_dead:
        by_topic = {}
    wanted = command.topics
    if wanted is None:
        wanted = tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic, key=java_order))
    topics = []
    for topic, partitions in wanted:
        by_partition = by_topic.get(topic, {})
        topic_id = command.topic_ids.get(topic, NO_TOPIC_ID)
        topics.append((topic, FetchedOffsets(partitions, list(map(by_partition.get, partitions)), topic_id)))
    context.reply(command.reply_to, OffsetFetchResult(error=ErrorCode.NONE, topics=tuple(topics)))


def _is_of_another_topic(value: OffsetValue, topic_id: bytes) -> bool:
    """Whether both ids are known and differ: the topic was deleted and created again, and its offsets remained."""
    return NO_TOPIC_ID not in (value.topic_id, topic_id) and value.topic_id != topic_id
