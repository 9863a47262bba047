"""Topics are created, extended and changed; each change is durable before a client can see it.

The cluster metadata decides what is valid; this appends its records. topic_deletion.py deletes topics, their files and offsets.
"""

import uuid
from collections.abc import Callable, Generator, Iterable, Sequence

from ottla.broker.cluster.topic_creation import TopicCreation
from ottla.broker.logs.checkpoint_deletions import CheckpointDeletions
from ottla.broker.logs.partitions import Partitions
from ottla.broker.metadata.metadata_log import MetadataLog
from ottla.core.config import BrokerConfig
from ottla.core.errors import ApiError, ErrorCode
from ottla.core.metadata.config_changes import Change
from ottla.core.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.core.metadata.topic_changes import (
    PARTITIONS_PER_REQUEST_MAX,
    alter_config,
    create_partitions,
    create_topic,
    preview_topic,
    requested_partitions,
)
from ottla.core.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS, NewTopic, Topic


class Topics:
    """Topics by name. Every method that changes something raises StorageError when it cannot be written, with nothing changed.

    `watchers` are called when settings of brokers were changed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        partitions: Partitions,
        deletions: CheckpointDeletions,
        watchers: Sequence[Callable[[], None]],
    ) -> None:
        self._watchers = watchers
        self._config = config
        self._log = metadata_log
        self._cluster_metadata = metadata_log.cluster_metadata
        self._partitions = partitions
        self._deletions = deletions
        self.by_name = self._cluster_metadata.topics

    def get(self, name: str) -> Topic | None:
        """The topic, if there is one."""
        return self._cluster_metadata.topics.get(name)

    def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic | ApiError:
        """Create a topic, or only return what it would be."""
        records = create_topic(self._cluster_metadata, new, uuid.uuid4().bytes)
        if isinstance(records, ApiError):
            return records
        if validate_only:
            return preview_topic(records)
        self._deletions.write_for(new.name)
        self._log.append(records)
        return self._cluster_metadata.topics[new.name]

    def create_in_pieces(self, news: Iterable[NewTopic]) -> Generator[None, None, list[Topic | ApiError]]:
        """Create many topics, with one append for some thousand records; each is created or refused. Names differ."""
        batch = TopicCreation(self._cluster_metadata, self._log, self._deletions)
        for new in news:
            yield from batch.add(new, uuid.uuid4().bytes)
        batch.commit()
        return batch.results

    def ensure_in_pieces(self, names: Iterable[str]) -> Generator[None, None, dict[str, ErrorCode]]:
        """Create missing topics with the broker's defaults (auto-creation); the errors of those that could not be created.

        Topics beyond what Kafka creates at once are left out: clients ask again for what they do not find.
        """
        news: list[NewTopic] = []
        partitions = 0
        for name in names:
            new = self._defaults_of(name)
            partitions += requested_partitions(self._cluster_metadata, new)
            if partitions > PARTITIONS_PER_REQUEST_MAX:
                break
            news.append(new)
        results = yield from self.create_in_pieces(news)
        return {new.name: result.error for new, result in zip(news, results) if isinstance(result, ApiError)}

    def ensure(self, name: str) -> Topic | ApiError:
        """The topic, made with the broker's defaults if it is not there: auto-creation, and the topics the broker itself needs."""
        return self._cluster_metadata.topics.get(name) or self.create(self._defaults_of(name))

    def _defaults_of(self, name: str) -> NewTopic:
        if name == CONSUMER_OFFSETS:
            return NewTopic(
                name=name,
                partitions=self._config.number("offsets.topic.num.partitions"),
                replication_factor=min(self._config.number("offsets.topic.replication.factor"), len(self._cluster_metadata.broker_ids)),
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": self._config.text("offsets.topic.segment.bytes"),
                },
            )
        if name == GROUP_EVENTS:
            return NewTopic(name=name, partitions=1, replication_factor=len(self._cluster_metadata.broker_ids))
        return NewTopic(name=name)

    def add_partitions(self, name: str, count: int, assignments: list[list[int]] | None, *, validate_only: bool = False) -> ApiError | None:
        """Raise a topic's partition count to `count`."""
        records = create_partitions(self._cluster_metadata, name, count, assignments)
        if isinstance(records, ApiError):
            return records
        if not validate_only:
            self._log.append(records)
        return None

    def alter_config(
        self, resource_type: int, resource_name: str, changes: Sequence[Change], *, validate_only: bool = False
    ) -> ApiError | None:
        """Change settings of a topic or of the broker; they take effect at once."""
        records = alter_config(self._cluster_metadata, resource_type, resource_name, changes)
        if isinstance(records, ApiError):
            return records
        if not validate_only:
            self._log.append(records)
            self._partitions.settings_changed(self._cluster_metadata.topics[resource_name] if resource_type == TOPIC_RESOURCE else None)
            for changed in self._watchers if resource_type == BROKER_RESOURCE else ():
                changed()
        return None
