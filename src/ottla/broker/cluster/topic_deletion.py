"""Deletes topics: their metadata, files, checkpoint entries and committed offsets."""

from ottla.broker.cluster.leadership import Coordinators
from ottla.broker.logs.checkpoint_deletions import CheckpointDeletions
from ottla.broker.logs.log_cleaner import LogCleaner
from ottla.broker.logs.partitions import Partitions
from ottla.broker.metadata.metadata_log import MetadataLog
from ottla.core.errors import ApiError
from ottla.core.metadata.topic_changes import delete_topic
from ottla.core.metadata.topics import CONSUMER_OFFSETS


class TopicDeletion:
    """One for all brokers of a process."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        partitions: Partitions,
        cleaner: LogCleaner,
        deletions: CheckpointDeletions,
        coordinators: Coordinators,
    ) -> None:
        self._metadata_log = metadata_log
        self._cluster_metadata = metadata_log.cluster_metadata
        self._partitions = partitions
        self._cleaner = cleaner
        self._deletions = deletions
        self._coordinators = coordinators

    def delete(self, name: str) -> ApiError | None:
        """Delete a topic; the caller then awaits `CheckpointDeletions.write` and `Partitions.when_moved`. Raises StorageError."""
        records = delete_topic(self._cluster_metadata, name)
        if isinstance(records, ApiError):
            return records
        topic = self._cluster_metadata.topics[name]
        self._metadata_log.append(records)
        if name == CONSUMER_OFFSETS:
            self._coordinators.resign_all()
        self._partitions.delete(topic)
        self._cleaner.topic_deleted(name)
        self._deletions.note(name)
        self._coordinators.forget_topic(name)
        return None
