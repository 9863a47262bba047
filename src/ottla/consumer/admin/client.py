"""The administrator's client: every question about groups, offsets and topics in one place, for Ottla and Apache Kafka alike.

It has a time for each question and keeps nothing but its connections: what a group looks like is asked anew each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from ottla.consumer.admin import groups, offsets, topics
from ottla.consumer.admin.brokers import Brokers
from ottla.consumer.admin.values import CommittedOffset, DescribedGroup, DescribedTopic, Failure, ListedGroup, Node
from ottla.core.model import TopicPartition

TIMEOUT_MS: Final = 30_000
"""What kafka-consumer-groups 4.3 gives a question."""


class AdminClient:
    """Asks the brokers behind `bootstrap_servers` ("host:port,..."); each question has `timeout_ms` with all its attempts.

    Raises ValueError for addresses that are none; later OutOfTimeError when nobody answers, RequestFailedError when a broker refuses,
    UnsupportedBrokerError when it is too old, PeerError when it makes no sense.
    """

    def __init__(self, bootstrap_servers: str, *, client_id: str = "ottla-admin", timeout_ms: int = TIMEOUT_MS) -> None:
        self._brokers = Brokers(bootstrap_servers, client_id=client_id, timeout_ms=timeout_ms)

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

    def commit(self, group_id: str, new_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Sets a group's offsets as no member would (generation -1)."""
        return offsets.commit_offsets(self._brokers, group_id, new_offsets)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Failure | None] | Failure:
        """Deletes a group's offsets."""
        return offsets.delete_offsets(self._brokers, group_id, partitions)

    def describe_topics(self, names: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
        """Each topic's partitions and leaders, or why not."""
        return topics.describe_topics(self._brokers, names)

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The first offset at or after `timestamp` (-1: the end, -2: the start), -1 where there is none."""
        return topics.list_offsets(self._brokers, partitions, timestamp)

    def broker(self, broker_id: int) -> Node:
        """Where a broker of the cluster listens."""
        return topics.broker_of(self._brokers, broker_id)
