"""A client's table of partition leaders and topic ids, and the values of Metadata responses that update it."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class LeaderAndEpoch(NamedTuple):
    """A leader's broker id and its leader epoch (-1: not known)."""

    broker_id: int
    epoch: int = NO_EPOCH


class PartitionMetadata(NamedTuple):
    """A partition in a Metadata response; the leader's broker id is -1 while there is none. `racks`: of its replicas, as far as known.

    `replicas` and `in_sync`: brokers' ids.
    """

    error: ErrorCode
    leader: LeaderAndEpoch
    racks: frozenset[str] = frozenset()
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """A topic in a Metadata response; `topic_id` is Kafka's base64 text, "" where the broker sends none."""

    name: str
    error: ErrorCode
    topic_id: str = ""
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = {}


class Leaders:
    """Known leaders by partition, and ids by topic. Several machines may share one table. `version` changes with every leader."""

    def __init__(self) -> None:
        self.version = 0
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self._topic_ids: dict[str, str] = {}

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """The leader, None where it is not known."""
        return self._leaders.get(partition)

    def topic_id(self, topic: str) -> str:
        """The topic's id, "" where it is not known."""
        return self._topic_ids.get(topic, "")

    def update(self, topics: Iterable[TopicMetadata]) -> None:
        """Take over the metadata of topics without error; forget the leaders of partitions that have none.

        A broker that lags behind names leaders of the past: of a topic that is the same by its id, they are left out (KIP-320).
        """
        for topic in topics:
            if topic.error is not ErrorCode.NONE:
                continue
            is_same = "" != topic.topic_id == self._topic_ids.get(topic.name)
            self._topic_ids[topic.name] = topic.topic_id
            for number, metadata in topic.partitions.items():
                partition = TopicPartition(topic.name, number)
                known = self._leaders.get(partition)
                if is_same and known is not None and 0 <= metadata.leader.epoch < known.epoch:
                    continue
                if metadata.leader.broker_id == NO_LEADER:
                    self._leaders.pop(partition, None)
                elif metadata.leader != known:
                    self._leaders[partition] = metadata.leader
                    self.version += 1

    def update_leader(self, partition: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Take over a leader that a broker named in a response (KIP-951). False when it is not newer than the known one."""
        known = self._leaders.get(partition)
        if leader.broker_id == NO_LEADER or (known is not None and leader.epoch <= known.epoch):
            return False
        self._leaders[partition] = leader
        self.version += 1
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._leaders.clear()
        self._topic_ids.clear()
