"""What a client knows of a cluster: topics, their ids, and who leads which partition since when. Values, and the table that keeps them."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class Leader(NamedTuple):
    """A broker by its id, and the leader epoch since when it leads (-1: not known)."""

    broker_id: int
    epoch: int = NO_EPOCH


class PartitionView(NamedTuple):
    """A partition in an answer to Metadata; the leader's broker id is -1 while there is none."""

    error: ErrorCode
    leader: Leader


class TopicView(NamedTuple):
    """A topic in an answer to Metadata; `topic_id` is Kafka's base64 text, "" where the broker told none."""

    name: str
    error: ErrorCode
    topic_id: str = ""
    is_internal: bool = False
    partitions: Mapping[int, PartitionView] = {}


class Leaders:
    """Who leads which partition, as far as it is known; several machines may share one table, one after another."""

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, Leader] = {}
        self._topic_ids: dict[str, str] = {}

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The leader, None where it is not known."""
        return self._leaders.get(partition)

    def topic_id(self, topic: str) -> str:
        """The topic's id, "" where it is not known."""
        return self._topic_ids.get(topic, "")

    def learn(self, topics: Iterable[TopicView]) -> None:
        """Takes over what Metadata says of topics without error; partitions that have no leader are forgotten."""
        for topic in topics:
            if topic.error is not ErrorCode.NONE:
                continue
            self._topic_ids[topic.name] = topic.topic_id
            for number, view in topic.partitions.items():
                partition = TopicPartition(topic.name, number)
                if view.leader.broker_id == NO_LEADER:
                    self._leaders.pop(partition, None)
                else:
                    self._leaders[partition] = view.leader

    def move(self, partition: TopicPartition, leader: Leader) -> bool:
        """Takes over a leader that a broker named itself (KIP-951). False when it is not newer than what is known."""
        known = self._leaders.get(partition)
        if leader.broker_id == NO_LEADER or (known is not None and leader.epoch <= known.epoch):
            return False
        self._leaders[partition] = leader
        return True

    def clear(self) -> None:
        """Forgets everything."""
        self._leaders.clear()
        self._topic_ids.clear()
