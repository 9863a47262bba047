"""Changes of partition leaders between the brokers of a process, whose logs are shared. metadata/leadership decides which are valid.

The order of a move: the old coordinator of an offsets partition resigns (its clients look for the new one), the cluster
metadata's log names the new leader, the partition takes the new leader epoch and wakes its readers, and the new coordinator reads the log.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.cluster.brokers import Brokers, Node
from ottla.broker.cluster.topics import Coordinators, Topics
from ottla.broker.metadata_log import MetadataLog
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.placement import coordinator_partition
from ottla.metadata.leadership import broker_started, broker_stopped, move_leader
from ottla.metadata.records import MetadataRecord, PartitionChangeRecord
from ottla.metadata.topics import CONSUMER_OFFSETS, Topic
from ottla.protocol.errors import ApiError, StorageError
from ottla.protocol.model import TopicPartition
from ottla.text import java_hash

PIECE: Final = 128
"""So many partitions change with one append, before other requests continue: about a millisecond, and a sync."""

Decide = Callable[[], MetadataRecord | ApiError | None]
"""Decides about one partition: its change, a refusal, or nothing to do."""
Changed = list[tuple[TopicPartition, ApiError | None]]
"""Partitions in the order in which they were given, each with why it did not change."""


class CoordinatorPlace(NamedTuple):
    """Where a group, or a transactional id, is coordinated: Java's hash of its id, partition of its topic, leader (None: it has none),
    HOST:PORT."""

    group_id: str
    hash: int
    partition: int
    broker_id: int | None
    address: str | None


class Leadership:
    """The leaders of partitions. Every change is durable before it takes effect; all methods raise StorageError when the log of the cluster
    metadata cannot be written."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        partitions: Partitions,
        topics: Topics,
        brokers: Brokers,
        coordinators: Mapping[str, Coordinators],
    ) -> None:
        self._metadata_log = metadata_log
        self._cluster_metadata = metadata_log.cluster_metadata
        self._partitions = partitions
        self._topics = topics
        self._brokers = brokers
        self._coordinators = coordinators

    def move(self, topic: str, number: int, to: int) -> ApiError | None:
        """Make broker `to` the leader of a partition."""
        record = move_leader(self._cluster_metadata, topic, number, to)
        if isinstance(record, ApiError):
            return record
        if record is not None:
            self._change([record])
        return None

    def change_in_pieces(self, decisions: Iterable[tuple[TopicPartition, Decide]]) -> Generator[None, None, Changed]:
        """Change many partitions; the generator's value. A log that cannot be written is the error of those that would have changed."""
        results: Changed = []
        piece: dict[TopicPartition, Decide] = {}
        for name, decide in decisions:
            if name in piece or len(piece) == PIECE:  # the second decision about a partition reads what the first one changed
                results += self._change_piece(piece)
                piece = {}
                yield
            piece[name] = decide
        return results + self._change_piece(piece)

    def _change_piece(self, piece: Mapping[TopicPartition, Decide]) -> Changed:
        decided = {name: decide() for name, decide in piece.items()}
        failure = None
        try:
            self._change([value for value in decided.values() if value is not None and not isinstance(value, ApiError)])
        except StorageError as error:
            failure = ApiError(error.code, str(error))
        return [(name, item if item is None or isinstance(item, ApiError) else failure) for name, item in decided.items()]

    def broker_stopped(self, node: Node) -> None:
        """Move the partitions of a stopped broker to other replicas; those without one have no leader until it starts again."""
        live_ids = self._cluster_metadata.live_ids
        live_ids.discard(node.id)
        try:
            self._change(broker_stopped(self._cluster_metadata, node.id))
        except StorageError:
            live_ids.add(node.id)
            raise
        for coordinators in self._coordinators.values():
            coordinators.resign_broker(node.id)

    def broker_started(self, node: Node) -> None:
        """Let a started broker lead the partitions that had no leader without it."""
        live_ids = self._cluster_metadata.live_ids
        live_ids.add(node.id)
        try:
            self._change(broker_started(self._cluster_metadata, node.id))
        except StorageError:
            live_ids.discard(node.id)
            raise

    def coordinator(self, group_id: str, topic_name: str = CONSUMER_OFFSETS) -> CoordinatorPlace:
        """Where a group, or a key of another coordinators' topic, is coordinated; creates the topic at its first use."""
        topic = self._topics.ensure(topic_name)
        assert isinstance(topic, Topic), "the topic's own settings were refused"
        number = coordinator_partition(group_id, len(topic.leaders))
        node = self._brokers.nodes.get(topic.leaders[number])
        if node is None:
            return CoordinatorPlace(group_id, java_hash(group_id), number, None, None)
        return CoordinatorPlace(group_id, java_hash(group_id), number, node.id, node.address())

    def _change(self, records: Sequence[MetadataRecord]) -> None:
        if not records:
            return
        changes = [
            (self._topic(record), record.partition)
            for record in records
            if isinstance(record, PartitionChangeRecord) and record.leader is not None
        ]
        coordinated = {
            name: numbers for name in self._coordinators if (numbers := [number for topic, number in changes if topic.name == name])
        }
        for name, numbers in coordinated.items():
            for number in numbers:
                self._coordinators[name].resign(number)
        try:
            self._metadata_log.append(records)
            for topic, number in changes:
                self._partitions.leader_changed(topic, number)
        finally:  # the new leaders, or those of before when nothing could be written
            for name, numbers in coordinated.items():
                self._coordinators[name].start(numbers)

    def _topic(self, record: PartitionChangeRecord) -> Topic:
        return self._cluster_metadata.topics_by_id[record.topic_id]
