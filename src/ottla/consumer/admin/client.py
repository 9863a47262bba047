"""The administrator's client: every question about groups, offsets and topics in one place, for Ottla and Apache Kafka alike.

It has a time for each question and keeps nothing but its connections: what a group looks like is asked anew each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from ottla.consumer.admin import groups, offsets, topics
from ottla.consumer.admin.values import CommittedOffset, DescribedGroup, DescribedTopic, Failure, ListedGroup, ListedOffset, Node
from ottla.consumer.brokers import Brokers
from ottla.consumer.settings import ClientSettings
from ottla.core.model import TopicPartition

TIMEOUT_MS: Final = 30_000
"""What kafka-consumer-groups 4.3 gives a question."""


class AdminClient:
    """Asks the brokers of `settings`, or behind a text "host:port,..." without security.

    Each question has `timeout_ms` with all its attempts (else `settings.default_api_timeout_ms`; 30 s with a text).

    Raises ValueError for addresses that are none; later OutOfTimeError when nobody answers, RequestFailedError when a broker refuses,
    UnsupportedBrokerError when it is too old, PeerError when it makes no sense.
    """

    def __init__(self, settings: ClientSettings | str, *, timeout_ms: int | None = None) -> None:
        if isinstance(settings, str):
            settings = ClientSettings(bootstrap_servers=settings, client_id="ottla-admin", default_api_timeout_ms=TIMEOUT_MS)
        self._brokers = Brokers(settings, timeout_ms=timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._brokers.close()

    def list_groups(self, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> list[ListedGroup]:
        """Groups of consumers on all brokers, sorted; `states`, `kinds` (lower case) choose, none means all."""
        return groups.list_consumer_groups(self._brokers, states=states, kinds=kinds)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, DescribedGroup | Failure]:
        """Each group with its members, or why not."""
        return groups.describe_groups(self._brokers, group_ids)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Failure | None]:
        """Deletes groups; None for each that is gone."""
        return groups.delete_groups(self._brokers, group_ids)

    def committed(self, group_ids: Iterable[str]) -> dict[str, Mapping[TopicPartition, CommittedOffset] | Failure]:
        """All that each group has committed, or why that is not told."""
        return offsets.committed_offsets(self._brokers, group_ids)

    def commit(
        self, group_id: str, new_offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Sets a group's offsets as no member would (generation -1); a CommittedOffset says leader epoch and metadata, too."""
        return offsets.commit_offsets(self._brokers, group_id, new_offsets)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Deletes a group's offsets."""
        return offsets.delete_offsets(self._brokers, group_id, partitions)

    def describe_topics(self, names: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
        """Each topic's partitions, leaders and id, or why not."""
        return topics.describe_topics(self._brokers, names)

    def list_topics(self) -> dict[str, DescribedTopic]:
        """Every topic that the client may see, internal ones included."""
        return topics.list_topics(self._brokers)

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The first offset at or after `timestamp` (LATEST: the end, EARLIEST: the start), -1 where there is none."""
        found = topics.list_offsets(self._brokers, dict.fromkeys(partitions, timestamp))
        return {partition: listed.offset for partition, listed in found.items()}

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The first record at or after each partition's own timestamp (EARLIEST and LATEST among them), offset -1 where there is none.

        LATEST is the end that readers of this client's isolation level see: the last stable offset where only committed records are read.
        """
        return topics.list_offsets(self._brokers, timestamps)

    def broker(self, broker_id: int) -> Node:
        """Where a broker of the cluster listens."""
        return topics.broker_of(self._brokers, broker_id)
