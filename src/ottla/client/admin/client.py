"""The admin client: requests about groups, offsets, topics and transactions, for Ottla and Apache Kafka alike.

Each call has a timeout. The client keeps connections only: every call asks the brokers again. Calls about groups and transactions import
their modules when they are made: their messages are a third of what a client needs, and the process that plans a streaming query, one for
each start, asks for topics alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin import topics
from ottla.client.admin.values import (
    LATEST,
    ActiveProducer,
    CommittedOffset,
    DescribedCluster,
    DescribedGroup,
    DescribedTopic,
    DescribedTransaction,
    Failure,
    ListedGroup,
    ListedOffset,
    ListedTransaction,
    PartitionTransaction,
)
from ottla.client.brokers import Brokers, Connect
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition
from ottla.security.acls import Acl, AclFilter

if TYPE_CHECKING:
    from ottla.client.admin.configs import ConfigEntry, QuotaEntry

TIMEOUT_MS: Final = 30_000
"""The timeout of kafka-consumer-groups 4.3."""


class AdminClient:
    """Calls the brokers of `settings`, or those of a text "host:port,..." without security.

    Each call has `timeout_ms` for all its attempts (else `settings.default_api_timeout_ms`; 30 s with a text), or `bootstrap_timeout_ms`
    until a broker, and the first leader or coordinator, was reached: then it raises NoBrokerReachedError, a DeadlineExceededError.
    `pause` waits so many seconds between attempts.

    Raises ValueError for malformed addresses; calls raise DeadlineExceededError when no broker answers, RequestFailedError when a broker
    refuses, UnsupportedBrokerError when it is too old, PeerError for malformed responses.
    """

    def __init__(
        self,
        settings: ClientSettings | str,
        *,
        timeout_ms: int | None = None,
        bootstrap_timeout_ms: int | None = None,
        connect: Connect = connect,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        if isinstance(settings, str):
            settings = ClientSettings(bootstrap_servers=settings, client_id="ottla-admin", default_api_timeout_ms=TIMEOUT_MS)
        self._brokers = Brokers(settings, timeout_ms=timeout_ms, bootstrap_timeout_ms=bootstrap_timeout_ms, connect=connect, pause=pause)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._brokers.close()

    def list_groups(self, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> list[ListedGroup]:
        """Consumer groups on all brokers, sorted; `states` and `kinds` (lower case) filter them, none means all."""
        from ottla.client.admin import groups

        return groups.list_consumer_groups(self._brokers, states=states, kinds=kinds)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, DescribedGroup | Failure]:
        """Each group with its members, or the failure."""
        from ottla.client.admin import groups

        return groups.describe_groups(self._brokers, group_ids)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Failure | None]:
        """Delete groups; None for each deleted one."""
        from ottla.client.admin import groups

        return groups.delete_groups(self._brokers, group_ids)

    def group_settings(self, group_id: str, names: Sequence[str]) -> Mapping[str, str] | Failure:
        """The values of settings of a consumer group, as consumer.session.timeout.ms; where it has no own, those of all groups."""
        from ottla.client.admin import groups

        return groups.group_settings(self._brokers, group_id, names)

    def remove_member(self, group_id: str, member_id: str, reason: str) -> Failure | None:
        """Let a member of a classic group leave it; None when it has."""
        from ottla.client.admin import groups

        return groups.remove_member(self._brokers, group_id, member_id, reason)

    def committed(self, group_ids: Iterable[str]) -> dict[str, Mapping[TopicPartition, CommittedOffset] | Failure]:
        """All committed offsets of each group, or the failure."""
        from ottla.client.admin import groups as offsets

        return offsets.committed_offsets(self._brokers, group_ids)

    def commit(
        self, group_id: str, new_offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Commit offsets from outside the group (generation -1); a CommittedOffset has a leader epoch and metadata, too."""
        from ottla.client.admin import groups as offsets

        return offsets.commit_offsets(self._brokers, group_id, new_offsets)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Delete a group's offsets."""
        from ottla.client.admin import groups as offsets

        return offsets.delete_offsets(self._brokers, group_id, partitions)

    def describe_topics(self, names: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
        """Each topic's partitions, leaders and id, or the failure."""
        return topics.describe_topics(self._brokers, names)

    def list_topics(self) -> dict[str, DescribedTopic]:
        """Every topic that the client may describe, internal ones included."""
        return topics.list_topics(self._brokers)

    def describe_cluster(self, names: Iterable[str] | None = None) -> DescribedCluster:
        """The cluster's id, controller and brokers, with these topics, or with every topic that the client may describe."""
        return topics.describe_cluster(self._brokers, names)

    def reach_leaders(self, names: Iterable[str]) -> None:
        """Connect to the brokers that lead partitions of these topics; without topics, to any broker."""
        topics.reach_leaders(self._brokers, names)

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The first offset at or after `timestamp` (LATEST: the end, EARLIEST: the start), -1 where there is none."""
        found = topics.list_offsets(self._brokers, dict.fromkeys(partitions, timestamp))
        return {partition: listed.offset for partition, listed in found.items()}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, creates_topics: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The first record at or after each partition's own timestamp, EARLIEST or LATEST; offset -1 where there is none.

        LATEST is the end at this client's isolation level: the last stable offset where only committed records are read.
        `creates_topics`: brokers may create topics that are missing, and these are waited for.
        """
        return topics.list_offsets(self._brokers, timestamps, creates_topics=creates_topics)

    def last_stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where readers of committed records stop: the first offset of the oldest open transaction; the end where none is open."""
        found = topics.list_offsets(self._brokers, dict.fromkeys(partitions, LATEST), is_read_committed=True)
        return {partition: listed.offset for partition, listed in found.items()}

    def list_transactions(self, *, longer_than_ms: int = -1, pattern: str | None = None) -> list[ListedTransaction]:
        """Transactional ids of all coordinators, sorted: those open for longer, those whose whole name `pattern` (RE2) matches."""
        from ottla.client.admin import transactions

        return transactions.list_transactions(self._brokers, longer_than_ms=longer_than_ms, pattern=pattern)

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, DescribedTransaction | Failure]:
        """Each transactional id with its transaction, or the failure."""
        from ottla.client.admin import transactions

        return transactions.describe_transactions(self._brokers, transactional_ids)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | Failure]:
        """The producers that each partition's leader knows, or its replica on one broker."""
        from ottla.client.admin import transactions

        return transactions.describe_producers(self._brokers, partitions, broker_id=broker_id)

    def describe_producer_ids(self, producer_ids: Iterable[int]) -> dict[int, DescribedTransaction]:
        """The transactions of producers by their ids; those that no coordinator knows are left out."""
        from ottla.client.admin import transactions

        return transactions.describe_producer_ids(self._brokers, producer_ids)

    def first_open_transactions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionTransaction]:
        """The transaction at each partition's last stable offset; partitions without an open one are left out."""
        from ottla.client.admin import transactions

        return transactions.first_open_transactions(self._brokers, partitions)

    def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> Failure | None:
        """End a hanging transaction in one partition; None when it is aborted."""
        from ottla.client.admin import transactions

        return transactions.abort_transaction(
            self._brokers, partition, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch
        )

    def force_terminate_transaction(self, transactional_id: str) -> Failure | None:
        """Abort the open transaction of an id and fence its producer; None when done."""
        from ottla.client.admin import transactions

        return transactions.force_terminate_transaction(self._brokers, transactional_id)

    def describe_acls(self, wanted: AclFilter) -> list[Acl] | Failure:
        """The ACLs that a filter means, sorted, or why they are not shown."""
        from ottla.client.admin import acls

        return acls.describe_acls(self._brokers, wanted)

    def create_acls(self, entries: Sequence[Acl]) -> list[Failure | None]:
        """Create ACLs; for each, None, or why it was refused."""
        from ottla.client.admin import acls

        return acls.create_acls(self._brokers, entries)

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[Failure | None]:
        """Delete the ACLs that filters mean; for each filter, None, or why it was refused."""
        from ottla.client.admin import acls

        return acls.delete_acls(self._brokers, filters)

    def describe_configs(self, kind: int, name: str) -> "list[ConfigEntry] | Failure":
        """All settings of a resource (2: a topic, 4: a broker, 32: a group), sorted, or why they are not shown."""
        from ottla.client.admin import configs

        return configs.describe_configs(self._brokers, kind, name)

    def alter_configs(self, kind: int, name: str, changes: Mapping[str, str | None]) -> Failure | None:
        """Set settings of a resource, or delete them (None); None when they are."""
        from ottla.client.admin import configs

        return configs.alter_configs(self._brokers, kind, name, changes)

    def describe_quotas(self, wanted: Sequence[tuple[str, int, str | None]]) -> "list[QuotaEntry] | Failure":
        """The quotas of entities that have these types alone."""
        from ottla.client.admin import configs

        return configs.describe_quotas(self._brokers, wanted)

    def alter_quotas(self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> Failure | None:
        """Set quotas of an entity, or remove them (None); None when they are."""
        from ottla.client.admin import configs

        return configs.alter_quotas(self._brokers, entity, changes)

    def describe_scram(self, user: str | None) -> dict[str, Mapping[str, int] | Failure] | Failure:
        """Mechanisms and iterations by user: of one, or of all that have credentials (SCRAM)."""
        from ottla.client.admin import configs

        return configs.describe_scram(self._brokers, user)

    def alter_scram(self, user: str, passwords: Mapping[str, tuple[int, str]], deleted: Sequence[str]) -> Failure | None:
        """Set a user's credentials, by mechanism: iterations and password; or delete some."""
        from ottla.client.admin import configs

        return configs.alter_scram(self._brokers, user, passwords, deleted)

    def broker(self, broker_id: int) -> BrokerEndpoint:
        """A broker of the cluster and its address."""
        return topics.broker_of(self._brokers, broker_id)
