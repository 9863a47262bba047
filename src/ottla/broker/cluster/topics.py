"""Topics are created, extended, changed and deleted; each change is durable before a client can see it.

The cluster metadata decides what is valid; this appends its records. Producer ids are reserved in its log too.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import Access
from ottla.broker.partitions.log_cleaner import LogCleaner
from ottla.broker.partitions.offset_checkpoints import CheckpointDeletions
from ottla.broker.partitions.partitions import Partitions
from ottla.config import DYNAMIC_BROKER_SETTINGS, BrokerConfig, shown
from ottla.groups.commands import ForgetTopics
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.config_changes import DELETE, SUGGESTIONS_MAX, Change, resource_problem, suggestion, without_effect
from ottla.metadata.records import MetadataRecord, encode
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.metadata.topic_changes import (
    PARTITIONS_PER_REQUEST_MAX,
    alter_config,
    create_partitions,
    create_topic,
    creation_refusal,
    delete_topic,
    preview_topic,
    requested_partitions,
)
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS, TRANSACTION_STATE, NewTopic, Topic, metric_name
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.security.access import Operation, ResourceType
from ottla.text import did_you_mean

RECORDS_PER_APPEND: Final = 5_000
"""An append of so many records takes some 20 ms, and a sync."""
PIECE: Final = 128
"""So many records are encoded before other requests continue: about 0.5 ms."""


class _Decided(NamedTuple):
    """A topic that may be created: where its result goes, its records and their bytes."""

    place: int
    name: str
    records: list[MetadataRecord]
    values: list[bytes]


class TopicCreation:
    """The topics of one request; `results` has one item for each, final after `commit`."""

    def __init__(self, cluster_metadata: ClusterMetadata, metadata_log: MetadataLog, deletions: CheckpointDeletions) -> None:
        self.results: list[Topic | ApiError] = []
        self._cluster_metadata = cluster_metadata
        self._log = metadata_log
        self._deletions = deletions
        self._decided: list[_Decided] = []
        self._records = 0

    def add(self, new: NewTopic, topic_id: bytes) -> Generator[None, None, None]:
        """Decide about a topic and commit when there is enough."""
        records = create_topic(self._cluster_metadata, new, topic_id)
        if isinstance(records, ApiError):
            self.results.append(records)
            yield
            return
        values = []
        for at in range(0, len(records), PIECE):
            values += [encode(record) for record in records[at : at + PIECE]]
            yield
        self._decided.append(_Decided(len(self.results), new.name, records, values))
        self.results.append(_UNDECIDED)
        self._records += len(records)
        if self._records >= RECORDS_PER_APPEND:
            self.commit()
            yield

    def commit(self) -> None:
        """Create the topics that were decided: all of them, or none where the log cannot be written."""
        decided, self._decided, self._records = self._decided, [], 0
        kept: dict[str, _Decided] = {}
        for each in decided:
            other = kept.get(metric_name(each.name))
            refused = creation_refusal(self._cluster_metadata, each.name)
            if refused is None and other is not None:
                message = f"Topic '{each.name}' collides with existing topic: {other.name}"
                refused = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            if refused is None:
                kept[metric_name(each.name)] = each
            else:
                self.results[each.place] = refused
        try:
            for each in kept.values():
                self._deletions.write_for(each.name)
            records = [record for each in kept.values() for record in each.records]
            self._log.append_encoded(records, [value for each in kept.values() for value in each.values])
        except StorageError as error:
            for each in kept.values():
                self.results[each.place] = ApiError(error.code, str(error))
        else:
            for each in kept.values():
                self.results[each.place] = self._cluster_metadata.topics[each.name]


_UNDECIDED: Final = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "not committed")


class Topics:
    """Topics by name. Every method that changes something raises StorageError when it cannot be written, with nothing changed.

    `watchers` are called when settings of brokers were changed. `are_shown_at_once`: a Metadata request that creates a topic has it in its
    response; in Kafka's first response it is unknown.
    """

    are_shown_at_once = False

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
        if name == TRANSACTION_STATE:
            replicas = len(self._cluster_metadata.broker_ids)
            return NewTopic(
                name=name,
                partitions=self._config.number("transaction.state.log.num.partitions"),
                replication_factor=min(self._config.number("transaction.state.log.replication.factor"), replicas),
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(min(self._config.number("transaction.state.log.min.isr"), replicas)),
                    "segment.bytes": self._config.text("transaction.state.log.segment.bytes"),
                    "unclean.leader.election.enable": "false",
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
        """Change settings of a topic, a group or the broker; they take effect at once."""
        records = alter_config(self._cluster_metadata, resource_type, resource_name, changes)
        if isinstance(records, ApiError):
            return records
        if not validate_only:
            self._log.append(records)
            if resource_type != GROUP_RESOURCE:
                self._partitions.settings_changed(self._cluster_metadata.topics[resource_name] if resource_type == TOPIC_RESOURCE else None)
            for changed in self._watchers if resource_type == BROKER_RESOURCE else ():
                changed()
        return None


class ProducerIds:
    """One for all brokers of a process; `node_id`: the broker in whose name blocks are reserved."""

    def __init__(self, metadata_log: MetadataLog, node_id: int) -> None:
        self._metadata_log = metadata_log
        self._node_id = node_id
        self._next = self._end = 0

    def next(self) -> int:
        """A producer id that no producer of this cluster ever had. Raises StorageError."""
        if self._next == self._end:
            cluster_metadata = self._metadata_log.cluster_metadata
            first = cluster_metadata.next_producer_id
            self._metadata_log.append([cluster_metadata.next_producer_block(self._node_id)])
            self._next, self._end = first, cluster_metadata.next_producer_id
        self._next += 1
        return self._next - 1


log = logging.getLogger(__name__)


def access_to_configs(operation: Operation, answers: str) -> tuple[Access, ...]:
    """The rights to settings: of topics, of brokers, which belong to the cluster, and of groups."""

    def access(kind: ResourceType, number: int) -> Access:
        place = "resources[].resource_name"
        return Access(operation, kind, place, refuse=_refuse_configs, answers=answers, where=("resource_type", number))

    of_cluster = (access(ResourceType.CLUSTER, number) for number in (BROKER_RESOURCE, _BROKER_LOGGER, _CLIENT_METRICS))
    return access(ResourceType.TOPIC, TOPIC_RESOURCE), *of_cluster, access(ResourceType.GROUP, GROUP_RESOURCE)


_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
"""Types of resources that have no settings here; whether a client may ask is decided before."""


def _refuse_configs(resource: Any, error: ErrorCode) -> dict[str, Any]:
    values = {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "configs": ()}
    return values | {"error_code": error, "error_message": None}


def alter_resources(
    topics: Topics,
    broker_id: int,
    resources: Sequence[Any],
    changes_of: Callable[[Any], Sequence[Change] | ApiError],
    *,
    validate_only: bool,
) -> Iterator[dict[str, Any] | None]:
    """One result a resource: all of its changes are made, or none. A resource that is named twice is refused, as in Kafka."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        refused: ApiError | None
        if times[kind, name] == 1:
            refused = _alter(topics, broker_id, resource, changes_of, validate_only=validate_only)
            yield None
        else:
            refused = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        hint = suggestion(kind, refused) if refused and len(resources) <= SUGGESTIONS_MAX else ""
        yield {
            "error_code": refused.error if refused else ErrorCode.NONE,
            "error_message": refused.message + hint if refused else None,
            "resource_type": kind,
            "resource_name": name,
        }


def _alter(
    topics: Topics, broker_id: int, resource: Any, changes_of: Callable[[Any], Sequence[Change] | ApiError], *, validate_only: bool
) -> ApiError | None:
    kind, name = resource.resource_type, resource.resource_name
    refused = resource_problem(kind, name, broker_id, [config.name for config in resource.configs])
    if refused is not None:
        return refused
    changes = changes_of(resource)
    if isinstance(changes, ApiError):
        return changes
    try:
        refused = topics.alter_config(kind, name, changes, validate_only=validate_only)
    except StorageError as error:
        return ApiError(error.code, str(error))
    if refused is None and not validate_only:
        _warn(kind, [name for name, operation, _ in changes if operation != DELETE])
    return refused


def _warn(kind: int, names: Sequence[str]) -> None:
    unknown = without_effect(kind, names)
    for name in unknown[:SUGGESTIONS_MAX]:
        hint = did_you_mean(name, DYNAMIC_BROKER_SETTINGS)
        log.warning("a broker config was set that is unknown, and that has no effect: %s%s", shown(name), hint)
    if len(unknown) > SUGGESTIONS_MAX:
        log.warning("%d more broker configs were set that have no effect", len(unknown) - SUGGESTIONS_MAX)


class Coordinators(Protocol):
    """The coordinators of one kind of all brokers of the process. Numbers are those of partitions of their topic."""

    def start(self, numbers: Sequence[int]) -> None:
        """Start the coordinators of these partitions, each on the broker that leads it."""

    def resign(self, number: int) -> None:
        """No broker coordinates what belongs to this partition any more."""

    def resign_broker(self, broker_id: int) -> None:
        """One broker coordinates nothing any more."""

    def resign_all(self) -> None:
        """No broker coordinates anything any more."""

    def run_everywhere(self, command: Any) -> None:
        """Run one of the broker's own commands at every coordinator; where none serves, when one does."""


class TopicDeletion:
    """One for all brokers of a process."""

    def __init__(
        self,
        *,
        metadata_log: MetadataLog,
        partitions: Partitions,
        cleaner: LogCleaner,
        deletions: CheckpointDeletions,
        coordinators: Mapping[str, Coordinators],
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
        if name in self._coordinators:
            self._coordinators[name].resign_all()
        self._partitions.delete(topic)
        self._cleaner.topic_deleted(name)
        self._deletions.note(name)
        self._coordinators[CONSUMER_OFFSETS].run_everywhere(ForgetTopics(topics=(name,)))
        return None
