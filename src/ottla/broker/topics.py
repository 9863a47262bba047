"""Topics as the broker handles them: made, grown and changed, durably, before anybody hears of it.

What may be is the catalogue's decision; this appends its records. Deleting is the cluster's, because files and offsets go too.
"""

import uuid
from collections.abc import Generator, Iterable

from ottla.broker.catalogue_log import CatalogueLog
from ottla.broker.deletions import Deletions
from ottla.broker.partitions import Partitions
from ottla.broker.topic_batch import TopicBatch
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, GROUP_EVENTS, PARTITIONS_PER_REQUEST_MAX, NewTopic, Topic
from ottla.core.catalogue.resource_configs import TOPIC_RESOURCE, Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import ErrorCode


class Topics:
    """The way to a topic. Every method that changes something raises StorageError when it cannot be kept, with nothing changed."""

    def __init__(self, config: BrokerConfig, catalogue_log: CatalogueLog, partitions: Partitions, deletions: Deletions) -> None:
        self._config = config
        self._log = catalogue_log
        self._catalogue = catalogue_log.catalogue
        self._partitions = partitions
        self._deletions = deletions

    def get(self, name: str) -> Topic | None:
        """The topic, if there is one."""
        return self._catalogue.topics.get(name)

    def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic | Refused:
        """Makes a topic, or only tells what it would be."""
        records = self._catalogue.create_topic(new, uuid.uuid4().bytes)
        if isinstance(records, Refused):
            return records
        if validate_only:
            return self._catalogue.imagine(records)
        self._deletions.write_for(new.name)
        self._log.append(records)
        return self._catalogue.topics[new.name]

    def create_in_pieces(self, news: Iterable[NewTopic]) -> Generator[None, None, list[Topic | Refused]]:
        """Creates many topics, with one append for some thousand records; each is created or refused. Names differ."""
        batch = TopicBatch(self._catalogue, self._log, self._deletions)
        for new in news:
            yield from batch.add(new, uuid.uuid4().bytes)
        batch.commit()
        return batch.results

    def ensure_in_pieces(self, names: Iterable[str]) -> Generator[None, None, dict[str, ErrorCode]]:
        """Creates missing topics with the broker's defaults (auto-creation); the errors of those that could not be created.

        Topics beyond what Kafka creates at once are left out: clients ask again for what they do not find.
        """
        news: list[NewTopic] = []
        partitions = 0
        for name in names:
            new = self._defaults_of(name)
            partitions += self._catalogue.partitions_asked_for(new)
            if partitions > PARTITIONS_PER_REQUEST_MAX:
                break
            news.append(new)
        results = yield from self.create_in_pieces(news)
        return {new.name: result.error for new, result in zip(news, results) if isinstance(result, Refused)}

    def ensure(self, name: str) -> Topic | Refused:
        """The topic, made with the broker's defaults if it is not there: auto-creation, and the topics the broker itself needs."""
        return self._catalogue.topics.get(name) or self.create(self._defaults_of(name))

    def _defaults_of(self, name: str) -> NewTopic:
        if name == CONSUMER_OFFSETS:
            return NewTopic(
                name=name,
                partitions=self._config.number("offsets.topic.num.partitions"),
                replication_factor=min(self._config.number("offsets.topic.replication.factor"), len(self._catalogue.broker_ids)),
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": self._config.text("offsets.topic.segment.bytes"),
                },
            )
        if name == GROUP_EVENTS:
            return NewTopic(name=name, partitions=1, replication_factor=len(self._catalogue.broker_ids))
        return NewTopic(name=name)

    def add_partitions(self, name: str, count: int, assignments: list[list[int]] | None, *, validate_only: bool = False) -> Refused | None:
        """Raises a topic's partition count to `count`."""
        records = self._catalogue.create_partitions(name, count, assignments)
        if isinstance(records, Refused):
            return records
        if not validate_only:
            self._log.append(records)
        return None

    def alter_config(
        self, resource_type: int, resource_name: str, changes: list[tuple[str, int, str | None]], *, validate_only: bool = False
    ) -> Refused | None:
        """Changes settings of a topic or of the broker; open logs take them up at once."""
        records = self._catalogue.alter_config(resource_type, resource_name, changes)
        if isinstance(records, Refused):
            return records
        if not validate_only:
            self._log.append(records)
            self._partitions.settings_changed(self._catalogue.topics[resource_name] if resource_type == TOPIC_RESOURCE else None)
        return None
