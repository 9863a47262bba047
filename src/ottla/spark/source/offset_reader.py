"""The driver's requests to brokers: a query's partitions, their first and latest offsets, and offsets for times and groups.

It holds the driver's admin client and retries as fetchOffset.numRetries says. It plans nothing.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedTopic, Failure
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import AuthenticationError, ClientError, RequestFailedError, UnknownTopicError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group.starting_offsets import committed_offsets, starting_offsets
from ottla.spark.options.source_options import (
    EARLIEST,
    LATEST,
    START_AT_LATEST,
    Edge,
    GroupOffsets,
    Position,
    SourceOptions,
    SpecificOffsets,
    Timestamp,
    Timestamps,
    listed,
    named,
)
from ottla.spark.options.subscription import Assign, SubscribePattern
from ottla.spark.options.values import OptionError
from ottla.spark.source.planning import Offsets, recreated

log = logging.getLogger(__name__)

T = TypeVar("T")
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class OffsetReader:
    """For one query; not for two threads at once. `connect` and `pause` (seconds) are for tests."""

    def __init__(
        self, options: SourceOptions, *, connect: Callable[..., AdminClient] = AdminClient, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._options = options
        self._connect = connect
        self._pause = pause
        self._admin: AdminClient | None = None
        self._has_succeeded = False

    def close(self) -> None:
        """Close the connections; another call opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def partitions(self, *, missing_allowed: Iterable[str] = ()) -> Offsets:
        """The query's partitions (each with offset -1: not requested) and the ids of their topics.

        Raises UnknownTopicError for a named topic that does not exist, unless it is one of `missing_allowed`, or ClientError.
        """
        return self._retry(lambda: self._partitions(frozenset(missing_allowed)))

    def latest(self, known: Offsets | None = None, *, among: Collection[TopicPartition] | None = None) -> Offsets:
        """The end of every partition, or of those `among` that exist.

        `known`: the offsets of a running query; its topics may be gone; ends before it are requested again.

        Raises as `partitions` does.
        """
        allowed = self._allowed_to_be_gone(known)
        for attempt in range(self._options.offset_attempts_max):
            if attempt:
                self._pause(self._options.offset_retry_ms / 1000)
            found = self._retry(lambda: self._at_edge(_chosen(self._partitions(allowed), among), LATEST))
            behind = _behind(known, found) if known is not None else {}
            if not behind:
                break
            log.warning("The latest offsets of some partitions lie before what was read: %s", listed(behind))
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition that exists. Raises ClientError."""
        wanted = set(partitions)
        if not wanted:
            return {}

        def list_earliest() -> dict[TopicPartition, int]:
            there = self._partitions({partition.topic for partition in wanted}).by_partition
            return self._list({partition: EARLIEST for partition in wanted if partition in there})

        return self._retry(list_earliest)

    def at_edge(self, edge: int, partitions: Offsets) -> Offsets:
        """The first (EARLIEST) or latest (LATEST) offsets of these partitions. Raises ClientError."""
        return self._retry(lambda: self._at_edge(partitions, edge))

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics as far as these exist ("": the broker has none). Raises ClientError."""
        described = self._retry(lambda: self._client().describe_topics(topics))
        return {name: topic.topic_id for name, topic in described.items() if isinstance(topic, DescribedTopic)}

    def resolve(self, position: Position, *, is_start: bool) -> tuple[Offsets, bool]:
        """The offsets of a position now, and whether any of them is the end of its partition, which moves.

        Raises OptionError where the options do not fit the partitions or no record is late enough, or ClientError.
        """

        def resolve_now() -> tuple[Offsets, bool]:
            there = self._partitions(frozenset())
            unresolved = self._unresolved(position, set(there.by_partition), is_start)
            edges = {partition: offset for partition, offset in unresolved.items() if offset < 0}
            moves = LATEST in edges.values()
            return Offsets({**unresolved, **self._list(edges)}, there.topic_ids), moves

        return self._retry(resolve_now)

    def _allowed_to_be_gone(self, known: Offsets | None) -> frozenset[str]:
        """Topics whose absence is a data loss, which planning reports. Other named topics that are missing are an error."""
        if known is None:
            return frozenset()
        subscription = self._options.subscription
        if not self._options.fail_on_data_loss and not isinstance(subscription, SubscribePattern):
            return frozenset(subscription.topics)
        return frozenset(known.topic_ids) | {partition.topic for partition in known.by_partition}

    def _unresolved(self, position: Position, partitions: set[TopicPartition], is_start: bool) -> Mapping[TopicPartition, int]:
        """Offsets, of which -1 and -2 are to be looked up."""
        if isinstance(position, Edge):
            return dict.fromkeys(partitions, position.value)
        if isinstance(position, SpecificOffsets):
            _check_partitions(position.offsets, partitions, "startingOffsets" if is_start else "endingOffsets")
            return position.offsets
        if isinstance(position, GroupOffsets):
            committed = committed_offsets(self._client(), position.group_id)
            return starting_offsets(position.group_id, committed, partitions, position.reset)
        if isinstance(position, Timestamps):
            _check_partitions(position.timestamps_ms, partitions, "startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp")
        times = dict.fromkeys(partitions, position.timestamp_ms) if isinstance(position, Timestamp) else position.timestamps_ms
        return self._at_times(times, is_start)

    def _at_times(self, times: Mapping[TopicPartition, int], is_start: bool) -> dict[TopicPartition, int]:
        found = self._list(times)
        for partition, offset in sorted(found.items()):
            if offset < 0 and is_start and self._options.unmatched_start != START_AT_LATEST:
                raise OptionError(
                    f"No offset matched from request of topic-partition {named(partition)} and timestamp {times[partition]}."
                    ' To start such partitions at their end, set the option "startingOffsetsByTimestampStrategy" to latest.'
                )
        # The timestamp -1 is the end, which moves.
        return {partition: LATEST if offset < 0 or times[partition] == LATEST else offset for partition, offset in found.items()}

    def _partitions(self, missing_allowed: Iterable[str]) -> Offsets:
        subscription = self._options.subscription
        if isinstance(subscription, SubscribePattern):
            visible = {name: topic for name, topic in self._client().list_topics().items() if not topic.is_internal}
            chosen = {name: visible[name] for name in subscription.matching(visible)}
        else:
            chosen = self._described(subscription.topics, missing_allowed)
        found = {TopicPartition(name, number): -1 for name, topic in chosen.items() for number in topic.leaders}
        if isinstance(subscription, Assign):
            found = {partition: -1 for partition in subscription.partitions if partition in found}
        return Offsets(found, {name: topic.topic_id for name, topic in chosen.items() if topic.topic_id})

    def _described(self, topics: Iterable[str], missing_allowed: Iterable[str]) -> dict[str, DescribedTopic]:
        found = {}
        for name, topic in self._client().describe_topics(topics).items():
            if isinstance(topic, DescribedTopic):
                found[name] = topic
            elif topic.code not in _GONE:
                raise RequestFailedError(_message(name, topic), topic.code)
            elif name not in missing_allowed:
                raise UnknownTopicError(f"topic {name} does not exist")
        return found

    def _at_edge(self, partitions: Offsets, edge: int) -> Offsets:
        return Offsets(self._list(dict.fromkeys(partitions.by_partition, edge)), partitions.topic_ids)

    def _list(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: listed.offset for partition, listed in self._client().offsets_for_times(times).items()} if times else {}

    def _client(self) -> AdminClient:
        if self._admin is None:
            # Only the first requests of a query: a running one waits for brokers that restart.
            bootstrap_timeout_ms = None if self._has_succeeded else self._options.bootstrap_timeout_ms
            self._admin = self._connect(self._options.client, bootstrap_timeout_ms=bootstrap_timeout_ms)
        return self._admin

    def _retry(self, call: Callable[[], T]) -> T:
        """The result of `call`, retried with new connections, except after a deadline or a failed authentication."""
        for attempt in range(1, self._options.offset_attempts_max + 1):
            try:
                result = call()
            except (DeadlineExceededError, AuthenticationError):
                raise
            except ClientError as error:
                if attempt == self._options.offset_attempts_max:
                    raise
                log.warning("Error in attempt %d getting Kafka offsets: %s", attempt, error)
                self.close()
                self._pause(self._options.offset_retry_ms / 1000)
            else:
                self._has_succeeded = True
                return result
        raise AssertionError("offset_attempts_max is at least 1")


def _chosen(offsets: Offsets, among: Collection[TopicPartition] | None) -> Offsets:
    if among is None:
        return offsets
    return Offsets({partition: offset for partition, offset in offsets.by_partition.items() if partition in among}, offsets.topic_ids)


def _behind(known: Offsets, found: Offsets) -> dict[TopicPartition, int]:
    """Partitions that end before a known offset, although their topics are the same."""
    again = recreated(known, found.topic_ids)
    return {
        partition: offset
        for partition, offset in found.by_partition.items()
        if offset < known.by_partition.get(partition, 0) and partition.topic not in again
    }


def _check_partitions(specified: Mapping[TopicPartition, int], assigned: set[TopicPartition], name: str) -> None:
    if set(specified) != assigned:
        raise OptionError(
            f"If {name} contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for earliest."
            f" Specified: {listed(specified)}. Assigned: {listed(assigned)}."
        )


def _message(name: str, failure: Failure) -> str:
    return f"topic {name}: {failure.message or failure.code.name}"
