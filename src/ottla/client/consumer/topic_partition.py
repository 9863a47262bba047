"""`TopicPartition` of confluent-kafka's interface: a partition with an offset, and with the result of the call that it was in."""

from collections.abc import Iterable
from typing import Any, Final

from ottla.core import model

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001


class TopicPartition:
    """A partition; `offset` may be one of the OFFSET_ constants, `leader_epoch` is None where it is not known.

    Two are equal when topic and partition are.
    """

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
            raise TypeError(f"topic must be a text, partition and offset must be numbers, not {topic!r}, {partition!r} and {offset!r}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: Any = None

    def __eq__(self, other: object) -> bool:
        return bool(_key(self) == _key(other))

    def __lt__(self, other: Any) -> bool:
        return bool(_key(self) < _key(other))

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _key(each: Any) -> Any:
    return getattr(each, "topic", None), getattr(each, "partition", None)


def keys(partitions: Iterable[Any]) -> list[model.TopicPartition]:
    """Partitions of this client or of confluent-kafka, without offsets. Raises TypeError for something else."""
    return [key(each) for each in partitions]


def key(each: Any) -> model.TopicPartition:
    """A partition of this client or of confluent-kafka, without its offset."""
    topic, partition = getattr(each, "topic", None), getattr(each, "partition", None)
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError(f"expected a TopicPartition, not {each!r}")
    return model.TopicPartition(topic, partition)
